/* The commands and replies of one connection. hiredis parses the replies, and does nothing else. */
#include "lua/wire.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/url.h"

enum {
    READ_SIZE = 16 * 1024, /* as much as one record of TLS has */
    TLS_ALERT = 0x15,      /* how TLS says that it does not understand; no reply begins with it */
    OUT_SIZE_MIN = 1024,
};

struct wire {
    struct transport *transport;
    redisReader *reader;
    char *out; /* commands queued */
    size_t out_used, out_room;
    int timeout_ms;
    bool plain;    /* no TLS */
    bool answered; /* something has come */
    bool late;     /* a reply did not come in time */
    char error[TRANSPORT_ERROR_SIZE];
};

struct wire *wire_open(const struct url *url, const struct url_server *server, int64_t until_ms,
                       int timeout_ms, char error_out[TRANSPORT_ERROR_SIZE])
{
    struct transport *transport = transport_open(url, server, until_ms, timeout_ms, error_out);
    if (!transport)
        return NULL;
    struct wire *wire = calloc(1, sizeof *wire);
    redisReader *reader = redisReaderCreate();
    if (!wire || !reader) {
        snprintf(error_out, TRANSPORT_ERROR_SIZE, "out of memory");
        if (reader)
            redisReaderFree(reader);
        transport_close(&transport);
        free(wire);
        return NULL;
    }
    wire->transport = transport;
    wire->reader = reader;
    wire->timeout_ms = timeout_ms;
    wire->plain = !url->tls;
    return wire;
}

void wire_close(struct wire **wire)
{
    if (*wire) {
        transport_close(&(*wire)->transport);
        redisReaderFree((*wire)->reader);
        free((*wire)->out);
    }
    free(*wire);
    *wire = NULL;
}

void wire_set_timeout(struct wire *wire, int timeout_ms)
{
    wire->timeout_ms = timeout_ms;
    transport_set_timeout(wire->transport, timeout_ms);
}

void wire_set_deadline(struct wire *wire, int64_t until_ms)
{
    int64_t left_ms = until_ms - clock_now_ms();
    wire_set_timeout(wire, left_ms < 1 ? 1 : left_ms < INT_MAX ? (int)left_ms : INT_MAX);
}

int wire_fd(const struct wire *wire)
{
    return transport_fd(wire->transport);
}

const char *wire_error(const struct wire *wire)
{
    return wire->error;
}

static void keep_error(struct wire *wire, const char *text)
{
    snprintf(wire->error, sizeof wire->error, "%s", text);
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

/* Writes the head of an array or of a string: "*3\r\n" says that 3 strings follow, "$3\r\n" that 3
 * bytes do. */
static char *put_count(char *out, char kind, size_t count)
{
    *out++ = kind;
    return put(decimal_put(out, count), "\r\n", 2);
}

/* Writes what redisFormatCommandArgv would, but into the buffer, which spares an allocation and a
 * copy per command. Room is reserved for the whole command first: a command is queued completely or
 * not at all, so running out of memory never leaves half a command on the wire. */
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
    if (count == 0 || transport_send(wire->transport, wire->out, count, lazily))
        return true;
    keep_error(wire, transport_error(wire->transport));
    return false;
}

/* ---- in ---- */

bool wire_parsed(struct wire *wire, struct redisReply **reply_out)
{
    void *reply = NULL;
    bool good = redisReaderGetReply(wire->reader, &reply) == REDIS_OK;
    if (!good)
        keep_error(wire, wire->reader->errstr);
    *reply_out = good ? reply : NULL;
    return good;
}

/* Hands what has come to the reader. Returns how many bytes; 0: none; -1: the connection is lost.
 */
static ptrdiff_t read_some(struct wire *wire, bool wait)
{
    char bytes[READ_SIZE];
    ptrdiff_t count = transport_receive(wire->transport, bytes, sizeof bytes, wait);
    if (count < 0)
        keep_error(wire, transport_error(wire->transport));
    if (count > 0 && !wire->answered && wire->plain && bytes[0] == TLS_ALERT) {
        keep_error(wire, "the server speaks TLS at this port: the URL begins with rediss");
        return -1;
    }
    wire->answered |= count > 0;
    if (count > 0 && redisReaderFeed(wire->reader, bytes, (size_t)count) != REDIS_OK) {
        keep_error(wire, wire->reader->errstr);
        count = -1;
    }
    return count;
}

struct redisReply *wire_receive(struct wire *wire)
{
    struct redisReply *reply = NULL;
    bool there = wire_flush(wire, false);
    int64_t until_ms = 0; /* asked for only when a reply comes in parts */
    while (there && wire_parsed(wire, &reply) && !reply) {
        bool late = until_ms > 0 && clock_now_ms() >= until_ms;
        ptrdiff_t count = late ? 0 : read_some(wire, true);
        if (count == 0)
            keep_error(wire, "no reply in time");
        wire->late |= count == 0;
        if (until_ms == 0)
            until_ms = clock_now_ms() + wire->timeout_ms;
        there = count > 0;
    }
    return reply;
}

/* poll(2) knows nothing of the bytes that TLS has decrypted already, so none may stay there. */
bool wire_fill(struct wire *wire)
{
    ptrdiff_t count;
    do
        count = read_some(wire, false);
    while (count > 0 && transport_pending(wire->transport));
    return count >= 0;
}

/* ---- one command ---- */

struct redisReply *wire_answer(struct wire *wire, const char *command, bool *lost_out)
{
    struct redisReply *reply = wire_receive(wire);
    *lost_out = !reply;
    if (reply && reply->type == REDIS_REPLY_ERROR) {
        snprintf(wire->error, sizeof wire->error, "%s: %s", command, reply->str);
        freeReplyObject(reply);
        reply = NULL;
    }
    return reply;
}

struct redisReply *wire_ask(struct wire *wire, int argc, const char *const *argv, bool *lost_out)
{
    if (wire_append(wire, argc, argv, NULL))
        return wire_answer(wire, argv[0], lost_out);
    keep_error(wire, "out of memory");
    *lost_out = true;
    return NULL;
}

/* A password alone logs in the default user; servers before Redis 6 take no other form. */
bool wire_append_login(struct wire *wire, const char *user, const char *password)
{
    const char *full[] = {"AUTH", user, password}, *old[] = {"AUTH", password};
    bool named = user[0] != '\0';
    if (password[0] == '\0' || wire_append(wire, named ? 3 : 2, named ? full : old, NULL))
        return true;
    keep_error(wire, "out of memory");
    return false;
}

bool wire_login(struct wire *wire, const char *user, const char *password)
{
    bool lost;
    if (password[0] == '\0')
        return true;
    struct redisReply *reply =
        wire_append_login(wire, user, password) ? wire_answer(wire, "AUTH", &lost) : NULL;
    freeReplyObject(reply);
    return reply != NULL;
}

bool wire_answered(const struct wire *wire)
{
    return wire->answered;
}

bool wire_late(const struct wire *wire)
{
    return wire->late;
}
