/* One connection to a Redis server: connects when needed, pipelines, times out. */
#ifndef LUA_REDIS_H
#define LUA_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redis;
struct redisReply;

/* The outcome of one command. "No" is not among them: it is an answer. */
enum redis_result {
    REDIS_ANSWERED, /* the reply arrived and is not an error */
    REDIS_FAILED,   /* certainly not done: it was never sent, or Redis refused it */
    REDIS_UNKNOWN,  /* it was sent and no reply came: it may be done */
};

struct redis_stats {
    uint64_t connects; /* connections made, the first included */
    uint64_t failures; /* connections lost or not made */
    uint64_t reloads;  /* scripts sent again because the server did not know them */
};

/* Makes a client of `url` (redis://[user:password@]host[:port][/db], see base/url.h) without
 * connecting. `timeout_ms` bounds each connect, send and wait for a reply. Returns NULL with the
 * reason in `error_out` when the url is not of that form.
 * A client belongs to one thread at a time; the caller closes it. */
struct redis *redis_open(const char *url, int timeout_ms, char *error_out, size_t error_size);

/* Closes the connection, frees the client and sets the caller's pointer to NULL. */
void redis_close(struct redis **redis);

/* Makes sure there is a connection, authenticated and on its database. After a failed try, further
 * tries fail at once until a delay has passed, which doubles from 20 ms to 1 s, with jitter.
 * REDIS_ANSWERED or REDIS_FAILED. */
enum redis_result redis_connect(struct redis *redis);

/* From now on bounds each connect, send and wait for a reply by this instead. */
void redis_set_timeout(struct redis *redis, int timeout_ms);

/* Closes the connection, if there is one; the next call connects again. */
void redis_drop(struct redis *redis);

/* True while no error has been seen on the present connection. */
bool redis_connected(const struct redis *redis);

/* The last error in words; empty before the first. Valid until the next call. */
const char *redis_error(const struct redis *redis);

struct redis_stats redis_stats(const struct redis *redis);

/* PING, to tell whether the server answers now. */
enum redis_result redis_ping(struct redis *redis);

/* PUBLISH message on channel. */
enum redis_result redis_publish(struct redis *redis, const char *channel, const char *message);

/* Subscribes this connection to a channel; from then on only redis_next_message may be called. */
enum redis_result redis_subscribe(struct redis *redis, const char *channel);

/* Waits up to `wait_ms` for the next message. REDIS_ANSWERED with a NUL-terminated copy in
 * `message_out` (cut to size), REDIS_FAILED when none came in time, REDIS_UNKNOWN when the
 * connection is lost: messages may have been missed, subscribe again. */
enum redis_result redis_next_message(struct redis *redis, int wait_ms, char *message_out,
                                     size_t size);

/* For script.c and its like: queues one command of the pipeline (false: out of memory). The
 * connection must be there. */
bool redis_append(struct redis *redis, int argc, const char *const *argv, const size_t *lengths);

/* For script.c: sends what is queued and gives the reply to the oldest command not yet answered.
 * The caller frees it with freeReplyObject. NULL: the connection is lost, and with it every reply
 * still due. */
struct redisReply *redis_receive(struct redis *redis);

/* For script.c and its like: sends what is queued without waiting for replies. False: the
 * connection is lost; what is then due is NULL from redis_receive. */
bool redis_flush(struct redis *redis);

/* The same for what is in no hurry: the kernel sends it with whatever comes next, or after 200 ms,
 * and nobody is woken now. */
bool redis_flush_lazily(struct redis *redis);

/* For who waits for replies with poll(2): the socket, or -1; reads what has arrived on it, once
 * (false: the connection is lost); the next reply among what was read, or NULL. */
int redis_fd(const struct redis *redis);
bool redis_fill(struct redis *redis);
struct redisReply *redis_parsed(struct redis *redis);

/* For script.c: keeps an error reply's text for redis_error. */
void redis_set_error(struct redis *redis, const char *text);

/* For script.c and its like: true the first time it is asked for this script (0..63) on this
 * connection; and again after the server was seen to have forgotten its scripts. */
bool redis_first_use(struct redis *redis, unsigned script);
void redis_forget_scripts(struct redis *redis);

/* For script.c: counts scripts that had to be sent again. */
void redis_count_reload(struct redis *redis);

#endif
