/* Records the order ids that wrk is told: preloaded into it, this library looks at what it reads.
 *
 * usage: LD_PRELOAD=build/record_ids.so ORDER_RECORD=FILE wrk ...
 *
 * The id of each answer "201" is appended to FILE as 8 bytes, the lowest first. A function
 * `response` in the Lua script would see the same, but wrk then makes a table of each answer's
 * heads, which costs it a fifth of its speed. Without ORDER_RECORD nothing is recorded. */

#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IDS_MAX = 8192, FDS_MAX = 65536, START_SIZE = 1024 };

static const char accepted[] = "HTTP/1.1 201 ", name[] = "{\"order_id\":\"";

/* Ids of one thread that are not in the file yet. */
struct ids {
    uint32_t count;
    uint64_t list[IDS_MAX];
};

/* What has come of an answer whose id did not come with its first bytes. */
struct start {
    size_t length;
    char text[START_SIZE];
};

static int file = -1;
static pthread_key_t key;
static struct start *starts[FDS_MAX]; /* by descriptor, which one thread alone reads */

static void fail(const char *what)
{
    fprintf(stderr, "record_ids: %s: %s\n", what, strerror(errno));
    _exit(1);
}

/* Each list is written whole, so that the lists of several threads do not mix. */
static void flush(struct ids *ids)
{
    size_t bytes = ids->count * sizeof ids->list[0];
    if (bytes > 0 && write(file, ids->list, bytes) != (ssize_t)bytes)
        fail("write");
    ids->count = 0;
}

static void end_thread(void *argument)
{
    flush(argument);
    free(argument);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("ORDER_RECORD");
    if (path == NULL || path[0] == '\0')
        return;
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || pthread_key_create(&key, end_thread) != 0)
        fail(path);
}

/* The thread that ends the process runs no destructor of its keys. */
__attribute__((destructor)) static void end(void)
{
    struct ids *ids = file < 0 ? NULL : pthread_getspecific(key);
    if (ids != NULL)
        flush(ids);
}

static void keep(uint64_t id)
{
    struct ids *ids = pthread_getspecific(key);
    if (ids == NULL) {
        ids = calloc(1, sizeof *ids);
        if (ids == NULL || pthread_setspecific(key, ids) != 0)
            fail("memory");
    }
    ids->list[ids->count++] = htole64(id);
    if (ids->count == IDS_MAX)
        flush(ids);
}

/* True when the text has a whole id, which is then kept. The id is the first member of the body,
 * and no head has a brace: looking for one byte costs much less than looking for the name. */
static bool keep_id_of(const char *text, size_t length)
{
    const char *at = memchr(text, '{', length), *end = text + length;
    uint64_t id = 0;
    if (at == NULL || (size_t)(end - at) < sizeof name || memcmp(at, name, sizeof name - 1) != 0)
        return false;
    for (at += sizeof name - 1; at < end && *at >= '0' && *at <= '9'; at++)
        id = id * 10 + (uint64_t)(*at - '0');
    if (at == end || *at != '"')
        return false;
    keep(id);
    return true;
}

static void await(int fd, const char *text, size_t length)
{
    if (starts[fd] == NULL && (starts[fd] = calloc(1, sizeof *starts[fd])) == NULL)
        fail("memory");
    struct start *start = starts[fd];
    if (length > START_SIZE - start->length)
        fail("an answer without an order_id");
    memcpy(start->text + start->length, text, length);
    start->length += length;
}

/* wrk sends one request at a time on a connection, so that each answer begins a read. */
static void look_at(int fd, const char *text, size_t length)
{
    struct start *start = starts[fd];
    if (start != NULL && start->length > 0) {
        await(fd, text, length);
        size_t known = start->length < sizeof accepted - 1 ? start->length : sizeof accepted - 1;
        if (memcmp(start->text, accepted, known) != 0 || keep_id_of(start->text, start->length))
            start->length = 0;
    } else if (memcmp(text, accepted,
                      length < sizeof accepted - 1 ? length : sizeof accepted - 1) == 0 &&
               !keep_id_of(text, length)) {
        await(fd, text, length);
    }
}

/* In place of the C library's. */
ssize_t read(int fd, void *buffer, size_t size)
{
    ssize_t length = syscall(SYS_read, fd, buffer, size);
    if (length > 0 && file >= 0 && fd < FDS_MAX)
        look_at(fd, buffer, (size_t)length);
    return length;
}
