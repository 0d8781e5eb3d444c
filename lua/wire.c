/* Sends the commands and reads the replies of one connection; hiredis only parses the replies. */
#include "lua/wire.h"

#include <assert.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/url.h"
#include "lua/dial.h"
#include "lua/tls.h"

enum {
    READ_SIZE = 16 * 1024, /* as much as one record of TLS has */
    TLS_ALERT = 0x15,      /* TLS does not understand, and says so; no reply begins with it */
    OUT_SIZE_MIN = 1024,
};

_Static_assert((int)TLS_ERROR_SIZE == (int)WIRE_ERROR_SIZE,
               "a lost connection of TLS writes its own error");

/* Without TLS the socket blocks, with the time-out set on it: one system call per send or receive.
 * With TLS lua/tls.c waits by itself. */
struct wire {
    int fd;
    struct tls *tls; /* NULL: plain */
    redisReader *reader;
    char *out; /* commands queued */
    size_t out_used, out_room;
    int timeout_ms;
    bool answered; /* bytes have come */
    bool lost;
    char error[WIRE_ERROR_SIZE];
};

/* ---- opening ---- */

struct wire *wire_open(const struct url *url, const struct url_server *server, int64_t until_ms,
                       int timeout_ms, char error_out[WIRE_ERROR_SIZE])
{
    int fd = dial(server, url->socket, until_ms, error_out, WIRE_ERROR_SIZE);
    if (fd < 0)
        return NULL;
    struct wire *wire = calloc(1, sizeof *wire);
    redisReader *reader = redisReaderCreate();
    if (!wire || !reader) {
        snprintf(error_out, WIRE_ERROR_SIZE, "out of memory");
        if (reader)
            redisReaderFree(reader);
        free(wire);
        close(fd);
        return NULL;
    }
    wire->fd = fd;
    wire->reader = reader;
    wire_set_timeout(wire, timeout_ms);
    if (url->tls && server)
        wire->tls = tls_open(fd, url, server->host, until_ms, wire->error);
    if (url->tls && !wire->tls) {
        snprintf(error_out, WIRE_ERROR_SIZE, "%s", wire->error);
        wire_close(&wire);
    }
    return wire;
}

void wire_close(struct wire **wire)
{
    if (*wire) {
        tls_close(&(*wire)->tls);
        close((*wire)->fd);
        redisReaderFree((*wire)->reader);
        free((*wire)->out);
    }
    free(*wire);
    *wire = NULL;
}

void wire_set_timeout(struct wire *wire, int timeout_ms)
{
    const struct timeval timeout = {.tv_sec = timeout_ms / 1000,
                                    .tv_usec = timeout_ms % 1000 * 1000};
    assert(timeout_ms > 0);
    wire->timeout_ms = timeout_ms;
    setsockopt(wire->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(wire->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

void wire_set_deadline(struct wire *wire, int64_t until_ms)
{
    int64_t left_ms = until_ms - clock_now_ms();
    wire_set_timeout(wire, left_ms < 1 ? 1 : left_ms < INT_MAX ? (int)left_ms : INT_MAX);
}

int wire_fd(const struct wire *wire)
{
    return wire->fd;
}

/* ---- errors ---- */

bool wire_lost(const struct wire *wire)
{
    return wire->lost;
}

const char *wire_error(const struct wire *wire)
{
    return wire->error;
}

static void lose(struct wire *wire, const char *why)
{
    wire->lost = true;
    snprintf(wire->error, sizeof wire->error, "%s", why);
}

/* A TLS port ends a connection that begins with anything else. */
static void lose_socket(struct wire *wire, const char *why)
{
    static const char hint[] =
        ", before the first answer: if the port speaks TLS, the URL begins with rediss";
    wire->lost = true;
    snprintf(wire->error, sizeof wire->error, "%s%s", why, wire->answered ? "" : hint);
}

/* ---- out ---- */

/* The buffer doubles and never shrinks, so after the first few pipelines nothing is allocated. */
static bool out_reserve(struct wire *wire, size_t more)
{
    size_t room = wire->out_room ? wire->out_room : OUT_SIZE_MIN;
    while (room < wire->out_used + more)
        room *= 2;
    if (room == wire->out_room)
        return true;
    char *out = realloc(wire->out, room);
    if (!out)
        return false;
    wire->out = out;
    wire->out_room = room;
    return true;
}

static char *put(char *out, const char *bytes, size_t count)
{
    memcpy(out, bytes, count);
    return out + count;
}

/* Writes the head of an array or a string: 3 strings follow "*3\r\n", 3 bytes "$3\r\n". */
static char *put_count(char *out, char kind, size_t count)
{
    *out++ = kind;
    return put(decimal_put(out, count), "\r\n", 2);
}

/* Writes the same bytes as redisFormatCommandArgv, but into the buffer, which spares an allocation
 * and a copy per command. Room is reserved for the whole command first: a command is queued
 * completely or not at all, so running out of memory never leaves half a command on the wire. */
bool wire_append(struct wire *wire, int argc, const char *const *argv, const size_t *lengths)
{
    size_t room = DECIMAL_DIGITS_MAX + 3;
    for (int i = 0; i < argc; i++)
        room += DECIMAL_DIGITS_MAX + 5 + (lengths ? lengths[i] : strlen(argv[i]));
    if (!out_reserve(wire, room))
        return false;
    char *out = put_count(wire->out + wire->out_used, '*', (size_t)argc);
    for (int i = 0; i < argc; i++) {
        size_t length = lengths ? lengths[i] : strlen(argv[i]);
        out = put_count(out, '$', length);
        out = put(out, argv[i], length);
        out = put(out, "\r\n", 2);
    }
    wire->out_used = (size_t)(out - wire->out);
    assert(wire->out_used <= wire->out_room); /* the sum above and the writing agree */
    return true;
}

/* An error may come after a part of the queue has left, and the server may run the complete
 * commands in that part. */
bool wire_flush(struct wire *wire, bool lazily)
{
    size_t count = wire->out_used;
    wire->out_used = 0;
    if (count > 0 && !wire->lost && wire->tls)
        wire->lost =
            !tls_send(wire->tls, wire->out, count, lazily, clock_now_ms() + wire->timeout_ms);
    for (size_t sent = 0; sent < count && !wire->lost && !wire->tls;) {
        ssize_t done =
            send(wire->fd, wire->out + sent, count - sent, MSG_NOSIGNAL | (lazily ? MSG_MORE : 0));
        if (done >= 0)
            sent += (size_t)done;
        else if (errno != EINTR)
            lose_socket(wire, strerror(errno));
    }
    return !wire->lost;
}

/* Returns the number of bytes sent at once; -1: the connection is lost. */
static ptrdiff_t push_some(struct wire *wire, bool lazily)
{
    ssize_t done;
    if (wire->tls) {
        done = tls_send_some(wire->tls, wire->out, wire->out_used, lazily);
        wire->lost |= done < 0;
        return done;
    }
    do
        done = send(wire->fd, wire->out, wire->out_used,
                    MSG_NOSIGNAL | MSG_DONTWAIT | (lazily ? MSG_MORE : 0));
    while (done < 0 && errno == EINTR);
    if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (done < 0)
        lose_socket(wire, strerror(errno));
    return done;
}

bool wire_push(struct wire *wire, bool lazily)
{
    ptrdiff_t done = 1;
    while (wire->out_used > 0 && !wire->lost && done > 0) {
        done = push_some(wire, lazily);
        if (done > 0) {
            wire->out_used -= (size_t)done;
            memmove(wire->out, wire->out + done, wire->out_used);
        }
    }
    return !wire->lost;
}

bool wire_unsent(const struct wire *wire)
{
    return wire->out_used > 0;
}

/* ---- in ---- */

bool wire_parsed(struct wire *wire, struct redisReply **reply_out)
{
    void *reply = NULL;
    if (!wire->lost && redisReaderGetReply(wire->reader, &reply) != REDIS_OK)
        lose(wire, wire->reader->errstr);
    *reply_out = wire->lost ? NULL : reply;
    return !wire->lost;
}

/* Reads up to READ_SIZE bytes; with `wait` it waits for the first of them. Returns their number; 0:
 * no byte came in time; -1: the connection is lost. */
static ptrdiff_t read_bytes(struct wire *wire, char bytes[READ_SIZE], bool wait)
{
    ssize_t count;
    if (wire->tls) {
        int64_t until_ms = wait ? clock_now_ms() + wire->timeout_ms : 0;
        count = tls_receive(wire->tls, bytes, READ_SIZE, until_ms);
        wire->lost |= count < 0;
        return count;
    }
    do
        count = recv(wire->fd, bytes, READ_SIZE, wait ? 0 : MSG_DONTWAIT);
    while (count < 0 && errno == EINTR);
    if (count > 0)
        return count;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    lose_socket(wire, count == 0 ? "Server closed the connection" : strerror(errno));
    return -1;
}

/* Passes arrived bytes to the reader, and returns as read_bytes does. */
static ptrdiff_t read_some(struct wire *wire, bool wait)
{
    char bytes[READ_SIZE];
    ptrdiff_t count = read_bytes(wire, bytes, wait);
    if (count <= 0)
        return count;
    bool first = !wire->answered;
    wire->answered = true;
    if (first && !wire->tls && bytes[0] == TLS_ALERT)
        lose(wire, "the server speaks TLS at this port: the URL begins with rediss");
    else if (redisReaderFeed(wire->reader, bytes, (size_t)count) != REDIS_OK)
        lose(wire, wire->reader->errstr);
    return wire->lost ? -1 : count;
}

struct redisReply *wire_receive(struct wire *wire)
{
    struct redisReply *reply = NULL;
    int64_t until_ms = 0; /* asked for only when a reply comes in parts */
    wire_flush(wire, false);
    while (wire_parsed(wire, &reply) && !reply) {
        bool late = until_ms > 0 && clock_now_ms() >= until_ms;
        if (late || read_some(wire, true) == 0)
            lose(wire, "no reply in time");
        if (until_ms == 0)
            until_ms = clock_now_ms() + wire->timeout_ms;
    }
    return reply;
}

/* Reads everything, because poll(2) does not know of bytes that TLS has already decrypted. */
bool wire_fill(struct wire *wire)
{
    ptrdiff_t count;
    do
        count = wire->lost ? -1 : read_some(wire, false);
    while (count > 0 && wire->tls && tls_pending(wire->tls));
    return count >= 0;
}
