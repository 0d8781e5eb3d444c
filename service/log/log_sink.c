/* The log's output, which never waits for its reader or disk. */
#define _GNU_SOURCE /* F_SETPIPE_SZ, memrchr, pipe2 */
#include "service/log/log_sink.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    QUEUE_BYTES = 1 << 20, /* of lines waiting for the disk; further lines are lost */
    PIECE_BYTES = 1 << 16, /* bytes per write to the disk */
    FLUSH_MS_MAX = 1000,
};

enum sink_kind {
    SINK_PLAIN,  /* a non-blocking pipe, to a reader or to the writer thread: write(2) */
    SINK_POLLED, /* could not be reopened: write(2) when there is room */
    SINK_SOCKET, /* such as systemd's journal: send(2) has a flag for it */
};

static _Atomic int sink_fd = STDERR_FILENO;
static _Atomic int sink_kind = SINK_PLAIN;
static int caller_fd = -1; /* sink_fd was made from it */
static _Atomic bool torn;  /* a socket took only the beginning of a line */

/* The thread that writes to a file. Its queue is a pipe, because the kernel keeps the lines whole
 * and bounded, and reports when one does not fit. */
static struct {
    pthread_t thread;
    bool runs;
    int queue_fd, file_fd;
    bool torn;                        /* the file has only the beginning of a line */
    _Atomic uint64_t queued, written; /* bytes; `written` includes lost ones */
    _Atomic unsigned long lost;       /* lines that the file did not take */
} writer;

/* Writes whole lines. */
static void write_lines(const char *text, size_t length)
{
    size_t done = 0;
    if (writer.torn && write(writer.file_fd, "\n", 1) == 1)
        writer.torn = false;
    while (done < length && !writer.torn) {
        ssize_t n = write(writer.file_fd, text + done, length - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    writer.torn |= done > 0 && text[done - 1] != '\n';
    for (; done < length; done++)
        writer.lost += text[done] == '\n';
    writer.written += length;
}

/* Runs until the queue's other end is closed. */
static void *write_queue(void *argument)
{
    static char text[PIECE_BYTES];
    size_t length = 0;
    (void)argument;
    prctl(PR_SET_NAME, "log-writer");
    for (;;) {
        ssize_t n = read(writer.queue_fd, text + length, sizeof text - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        length += (size_t)n;
        const char *end = memrchr(text, '\n', length);
        size_t whole = end ? (size_t)(end - text) + 1 : 0;
        write_lines(text, whole);
        length -= whole;
        memmove(text, text + whole, length);
    }
    close(writer.queue_fd);
    return NULL;
}

/* Starts the writer. Returns its queue's end for lines, or -1 when there can be no writer. */
static int start_writer(int file_fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    fcntl(ends[0], F_SETFL, 0);                /* its reader waits for lines */
    fcntl(ends[1], F_SETPIPE_SZ, QUEUE_BYTES); /* or what the kernel grants */
    writer.queue_fd = ends[0];
    writer.file_fd = file_fd;
    writer.torn = false;
    writer.queued = writer.written = 0;
    writer.runs = pthread_create(&writer.thread, NULL, write_queue, NULL) == 0;
    if (writer.runs)
        return ends[1];
    close(ends[0]);
    close(ends[1]);
    return -1;
}

static void stop_writer(void)
{
    if (writer.runs)
        pthread_join(writer.thread, NULL);
    writer.runs = false;
}

/* Uses only what a signal handler may use. */
void log_sink_flush(void)
{
    for (int ms = 0; ms < FLUSH_MS_MAX && writer.written < writer.queued; ms++)
        poll(NULL, 0, 1);
}

static void flush_at_abort(int signal)
{
    (void)signal; /* abort() continues as without a handler */
    log_sink_flush();
}

/* The last lines tell why the process ends. */
static void flush_at_the_end(void)
{
    static bool done;
    const struct sigaction action = {.sa_handler = flush_at_abort, .sa_flags = (int)SA_RESETHAND};
    if (done)
        return;
    done = true;
    atexit(log_sink_flush);
    sigaction(SIGABRT, &action, NULL);
}

unsigned long log_sink_lost(void)
{
    if (atomic_load_explicit(&writer.lost, memory_order_relaxed) == 0)
        return 0;
    return atomic_exchange(&writer.lost, 0);
}

static int open_again(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

void log_sink_open(int fd)
{
    struct stat status;
    assert(fd >= 0);
    if (fd == caller_fd)
        return;
    if (caller_fd >= 0 && sink_fd != caller_fd)
        close(sink_fd);
    stop_writer();
    caller_fd = fd;
    sink_fd = fd;
    sink_kind = SINK_PLAIN;
    if (fstat(fd, &status) != 0)
        return;
    if (S_ISSOCK(status.st_mode)) {
        sink_kind = SINK_SOCKET;
        return;
    }
    bool file = S_ISREG(status.st_mode);
    int own = file ? start_writer(fd) : open_again(fd);
    if (own >= 0)
        sink_fd = own;
    else if (!file)
        sink_kind = SINK_POLLED;
    if (writer.runs)
        flush_at_the_end();
}

bool log_sink_is_journal(int fd)
{
    struct stat status;
    unsigned long long device, inode;
    const char *stream = getenv("JOURNAL_STREAM"); /* device:inode, see systemd.exec(5) */
    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(fd, &status) == 0 &&
           status.st_dev == device && status.st_ino == inode;
}

static ssize_t put(const char *text, size_t length)
{
    struct pollfd room = {.fd = sink_fd, .events = POLLOUT};
    if (sink_kind == SINK_SOCKET)
        return send(room.fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    /* Room for a byte is room for a line: pipes count in pages. */
    if (sink_kind == SINK_POLLED && (poll(&room, 1, 0) != 1 || !(room.revents & POLLOUT)))
        return -1;
    return write(room.fd, text, length);
}

bool log_sink_write(const char *line, size_t length)
{
    assert(length > 0 && length <= PIPE_BUF);
    if (torn && put("\n", 1) == 1) /* the next line must not continue it */
        torn = false;
    if (torn)
        return false;
    ssize_t n;
    do
        n = put(line, length);
    while (n < 0 && errno == EINTR);
    if (n > 0 && (size_t)n < length)
        torn = true;
    if (n > 0 && writer.runs)
        writer.queued += (size_t)n;
    return n == (ssize_t)length;
}
