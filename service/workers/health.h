/* The health of Redis and the ledger: whether each would accept a write now.
 *
 * One thread per server probes it four times a second, so that a hanging server does not hide the
 * other. All other threads read the last answer from memory and never wait. An answer older than a
 * second does not count: then the server is down. */
#ifndef SECKILL_SERVICE_WORKERS_HEALTH_H
#define SECKILL_SERVICE_WORKERS_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct health;
struct service;

enum health_server { HEALTH_REDIS, HEALTH_LEDGER, HEALTH_SERVER_COUNT };

/* X(id, word): /readyz and the log show the word. */
#define HEALTH_STATES(X)                                                                           \
    X(UNKNOWN, "unknown") /* not probed yet */                                                     \
    X(OK, "ok")           /* takes writes */                                                       \
    X(DOWN, "down")       /* no answer, or an unexpected one */                                    \
    /* The states below answer, but refuse writes. */                                              \
    X(READ_ONLY, "read_only")           /* a replica, or configured so */                          \
    X(OUT_OF_MEMORY, "out_of_memory")   /* Redis: at maxmemory, without eviction */                \
    X(CANNOT_PERSIST, "cannot_persist") /* Redis: it cannot write to its disk */                   \
    X(FEW_REPLICAS, "few_replicas")     /* Redis: fewer than min-replicas-to-write */              \
    X(LOADING, "loading")               /* Redis: it loads its data after a start */               \
    X(BUSY, "busy")                     /* Redis: a script blocks it */                            \
    X(NO_PERMISSION, "no_permission")   /* Redis: the account may not do what orders need */       \
    X(SPLIT, "split")                   /* the ledger: two of its servers take writes */           \
    X(NO_NODE, "no_node")               /* the ledger: no node number for this daemon */           \
    X(CLOCK, "clock_unsteady")          /* the ledger: its clock has just stepped */               \
    X(COMMITS_WAIT, "commits_wait")     /* the ledger: it does not answer commits */

#define HEALTH_ID(id, word) HEALTH_##id,
enum health_state { HEALTH_STATES(HEALTH_ID) HEALTH_STATE_COUNT };
#undef HEALTH_ID

/* Makes service->health and starts its threads. False with the reason in service->error. In either
 * case the caller ends it with health_stop and health_join, after all threads that read from it. */
bool health_start(struct service *service);

/* Tells the threads to end, and does not wait. NULL is fine. */
void health_stop(struct health *health);

/* Waits for the threads (at most a second when a server hangs), frees everything and sets the
 * pointer to NULL. NULL is fine. */
void health_join(struct health **health);

/* The last known state at `now_ns` (monotonic). Any thread, without waiting. */
enum health_state health_state(const struct health *health, enum health_server server,
                               int64_t now_ns);

/* True when the daemon sells: it is prepared, and both servers accept writes. Any thread, without
 * waiting. */
bool health_ready(const struct health *health, int64_t now_ns);

/* False while Redis refuses to publish: orders go on, and other daemons see this one's changes
 * late. Any thread, without waiting. */
bool health_news(const struct health *health);

/* False while the ledger's settings may lose accepted orders. Any thread, without waiting. */
bool health_durable(const struct health *health);

/* Age in ms of the oldest write without an answer in time; 0: none. Any thread, without waiting. */
int64_t health_oldest_write_ms(const struct health *health);

/* Duration of the last answered probe in ns; 0: none yet. Any thread. */
int64_t health_took_ns(const struct health *health, enum health_server server);

/* The server's address, for messages; lives as long as `health`. Any thread. */
const char *health_place(const struct health *health, enum health_server server);

/* The state's word. */
const char *health_word(enum health_state state);

#endif
