/* One connection to a Redis server: connects when needed, pipelines, times out. */
#ifndef LUA_REDIS_H
#define LUA_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cluster;
struct command;
struct fault;
struct redis;
struct redisReply;
struct script_call;
struct url;

/* The outcome of one command. A script that says no, as for a busy lock, has answered. */
enum redis_result {
    REDIS_ANSWERED, /* the reply arrived and is not an error */
    REDIS_FAILED,   /* certainly not done: the command was never sent, or Redis refused it */
    REDIS_UNKNOWN,  /* the command was sent and no reply came: Redis may have done it */
};

struct redis_stats {
    uint64_t connects; /* connections made, the first included */
    uint64_t failures; /* connections lost or not made */
};

/* Makes a client of `url`, of the family "redis" of base/url.h, without connecting. `timeout_ms`
 * bounds each connect, with the look-up of the host's name, each send and each wait for a reply.
 * Returns NULL with the reason in `error_out` when the URL has another form or memory ran out. A
 * client belongs to one thread at a time; the caller closes it. */
struct redis *redis_open(const char *url, int timeout_ms, char *error_out, size_t error_size);

/* Makes a client of one node of the cluster that `cluster` names; otherwise as redis_open. NULL:
 * out of memory. */
struct redis *redis_open_node(const struct url *cluster, const char *host, unsigned port,
                              int timeout_ms);

/* The client of the cluster that the URL names, for lua/cluster/cluster.h; NULL for other URLs. */
struct cluster *redis_cluster(const struct redis *redis);

/* Closes the connection, frees the client and sets the caller's pointer to NULL. */
void redis_close(struct redis **redis);

/* Makes sure there is a connection, authenticated and on its database. After a failed try, further
 * tries fail at once until a delay has passed, which doubles from 20 ms to 1 s, with jitter.
 * REDIS_ANSWERED or REDIS_FAILED. */
enum redis_result redis_connect(struct redis *redis);

/* Bounds each connect, send and wait for a reply by `timeout_ms` from now on. */
void redis_set_timeout(struct redis *redis, int timeout_ms);

/* Closes the connection, if there is one, and drops queued commands; the next call that needs a
 * connection opens one. */
void redis_drop(struct redis *redis);

/* True while there is a connection without an error so far, to a server that takes writes as far as
 * this client knows. */
bool redis_connected(const struct redis *redis);

/* The last error in words; empty before the first. Valid until the next call. */
const char *redis_error(const struct redis *redis);

/* The failures since the caller last cleared them: connects, lost connections, late replies,
 * refused commands; a call that fails during the delay after a failed connect counts as well. */
struct fault *redis_fault(struct redis *redis);

/* The host of the connection, as the URL names it; NULL without a connection. Valid as long as the
 * connection. */
const char *redis_host(const struct redis *redis);

/* The server's address for messages, "host:port". Any thread; valid as long as the client. */
const char *redis_place(const struct redis *redis);

/* Names the command that the next replies answer, for redis_fault. The text outlives them. */
void redis_set_doing(struct redis *redis, const char *doing);

/* The counts since redis_open. */
struct redis_stats redis_stats(const struct redis *redis);

/* Sends PING: REDIS_ANSWERED when the server answers now. Of a cluster: when any master does. */
enum redis_result redis_ping(struct redis *redis);

/* Publishes `message` on `channel`. */
enum redis_result redis_publish(struct redis *redis, const char *channel, const char *message);

/* Subscribes this connection to a channel and waits for Redis to confirm it; from then on the
 * connection takes no other commands. */
enum redis_result redis_subscribe(struct redis *redis, const char *channel);

/* For a connection that holds many subscriptions: sends SUBSCRIBE or UNSUBSCRIBE without waiting,
 * with `sharded` SSUBSCRIBE or SUNSUBSCRIBE, which Redis 7 and later know; the ending of a
 * subscription may leave up to 200 ms late. False: there is no connection, or it was lost, or
 * memory ran out. */
bool redis_send_subscribe(struct redis *redis, const char *channel, bool sharded);
bool redis_send_unsubscribe(struct redis *redis, const char *channel, bool sharded);

enum redis_event {
    REDIS_EVENT_NONE,         /* no further reply has been read */
    REDIS_EVENT_SUBSCRIBED,   /* Redis confirms one more subscription */
    REDIS_EVENT_UNSUBSCRIBED, /* a subscription has ended: it was asked to, or its slot has moved */
    REDIS_EVENT_MESSAGE,      /* a message came on a channel */
    REDIS_EVENT_REFUSED,      /* an error reply, which redis_error tells */
    REDIS_EVENT_OTHER,        /* any other reply */
};

/* Returns the next event among what redis_fill has read. For REDIS_EVENT_MESSAGE writes the channel
 * and the message as NUL-terminated text, cut to their sizes, and leaves out one whose size is 0;
 * for REDIS_EVENT_UNSUBSCRIBED writes the channel; for the others writes nothing. */
enum redis_event redis_next_event(struct redis *redis, char *channel_out, size_t channel_size,
                                  char *message_out, size_t message_size);

/* The functions below are for modules that build their own pipelines or wait with poll(2). */

/* Queues one command of the pipeline; false when memory ran out, and then nothing of the command is
 * queued. `lengths` may be NULL when all arguments are text. The connection must be there. */
bool redis_append(struct redis *redis, int argc, const char *const *argv, const size_t *lengths);

/* Sends what is queued and returns the reply to the oldest command not yet answered; the caller
 * frees it with freeReplyObject. NULL: the connection is lost, and with it every reply still due.
 * Never connects. */
struct redisReply *redis_receive(struct redis *redis);

/* Sends what is queued without waiting for replies. False: the connection is lost, and
 * redis_receive returns NULL for each reply due. */
bool redis_flush(struct redis *redis);

/* From now on whatever sends on this client sends what the socket takes at once, and the next
 * redis_flush goes on; redis_receive is not called. redis_unsent tells whether something is left,
 * for which the caller polls with POLLOUT. */
void redis_never_wait(struct redis *redis);
bool redis_unsent(const struct redis *redis);

/* For a caller that waits for replies with poll(2). redis_fd returns the socket, or -1 without a
 * connection. redis_fill reads once what has arrived; false: the connection is lost. redis_parsed
 * returns the next complete reply among what was read, or NULL; the caller frees it. */
int redis_fd(const struct redis *redis);
bool redis_fill(struct redis *redis);
struct redisReply *redis_parsed(struct redis *redis);

/* Keeps the text of an error reply for redis_error. If the error says that the server takes no
 * writes at all (a replica, one that loads its data, one without its disk or its replicas),
 * redis_connected becomes false, and the next use connects anew and so looks up the name again. */
void redis_set_error(struct redis *redis, const char *text);

/* redis_first_use returns true for the first use of a script (0..63) on this connection, and for
 * the first use after redis_forget_scripts, which a caller calls when it finds that the server has
 * forgotten its scripts. */
bool redis_first_use(struct redis *redis, unsigned script);
void redis_forget_scripts(struct redis *redis);

/* Functions that lua/cluster/ provides to the client of one server and to its pipelines. They form
 * a table, because a cluster's client itself uses clients of one server and their pipelines. */
struct cluster_hooks {
    /* Makes the client for the servers of `url`, without connecting; one server that answers is
     * enough to learn the others. NULL: out of memory. `seed` outlives it, and gets its errors and
     * faults. It belongs to the seed's thread. */
    struct cluster *(*open)(struct redis *seed, const struct url *url, int timeout_ms);

    /* Closes all connections to nodes, frees the client and sets the caller's pointer to NULL. */
    void (*close)(struct cluster **cluster);

    /* Does redis_drop and redis_set_timeout for all nodes. */
    void (*drop)(struct cluster *cluster);
    void (*set_timeout)(struct cluster *cluster, int timeout_ms);

    /* Pings every master. REDIS_ANSWERED when one of them answers. */
    enum redis_result (*ping)(struct cluster *cluster);

    /* Adds the counts of the connections to nodes. */
    void (*add_stats)(const struct cluster *cluster, struct redis_stats *stats);

    /* The pipelines of script_run and command_run: see lua/cluster/cluster.h. */
    void (*run_scripts)(struct cluster *cluster, struct script_call *calls, size_t count);
    void (*run_commands)(struct cluster *cluster, struct command *commands, size_t count);

    /* True when a node has answered in the last pipeline, or another one is connected: while this
     * is true, calls that failed for a lost node may succeed at another. */
    bool (*reached)(const struct cluster *cluster);

    /* True when the last commands were refused, and not done, because their slot is being moved:
     * they may be tried again. */
    bool (*moving)(const struct cluster *cluster);
};

extern const struct cluster_hooks cluster_hooks;

#endif
