/* What the daemon knows of Redis and of the ledger: whether each would take a write now.
 *
 * A thread for each asks four times a second, so that one of them that hangs does not hide the
 * others. Everybody else reads the last answer from memory and never waits. An answer that is older
 * than a second counts as none: then the part is down. */
#ifndef SECKILL_SERVICE_WORKERS_HEALTH_H
#define SECKILL_SERVICE_WORKERS_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct health;
struct service;

enum health_server { HEALTH_REDIS, HEALTH_LEDGER, HEALTH_SERVER_COUNT };

/* X(id, word): the word stands in /readyz and in the log. */
#define HEALTH_STATES(X)                                                                           \
    X(UNKNOWN, "unknown") /* not asked yet */                                                      \
    X(OK, "ok")           /* takes writes */                                                       \
    X(DOWN, "down")       /* does not answer, or not as it should */                               \
    /* These answer and refuse writes. */                                                          \
    X(READ_ONLY, "read_only")           /* a replica, or set so */                                 \
    X(OUT_OF_MEMORY, "out_of_memory")   /* Redis: maxmemory, and it evicts nothing */              \
    X(CANNOT_PERSIST, "cannot_persist") /* Redis: it cannot write to its disk */                   \
    X(FEW_REPLICAS, "few_replicas")     /* Redis: fewer than min-replicas-to-write */              \
    X(LOADING, "loading")               /* Redis: it reads its data after a start */               \
    X(BUSY, "busy")                     /* Redis: a script keeps it */                             \
    X(SPLIT, "split")                   /* the ledger: two of its servers take writes */           \
    X(NO_NODE, "no_node")               /* the ledger: it has no node number for this daemon */    \
    X(CLOCK, "clock_unsteady")          /* the ledger: its clock has stepped a moment ago */

#define HEALTH_ID(id, word) HEALTH_##id,
enum health_state { HEALTH_STATES(HEALTH_ID) HEALTH_STATE_COUNT };
#undef HEALTH_ID

/* Starts the threads. NULL with the reason in `error_out`. The caller ends them with health_stop
 * and health_join, after all who read from it have ended. */
struct health *health_start(struct service *service, char *error_out, size_t error_size);

/* Tells the threads to end, and does not wait. NULL is fine. */
void health_stop(struct health *health);

/* Waits for the threads, for a second at most when a server hangs, frees everything and
 * sets the pointer to NULL. NULL is fine. */
void health_join(struct health **health);

/* What was last seen, as of `now_ns` (monotonic). Any thread, without waiting. */
enum health_state health_redis(const struct health *health, int64_t now_ns);
enum health_state health_ledger(const struct health *health, int64_t now_ns);

/* Whether the daemon sells: it is prepared, and both servers take writes. The same. */
bool health_ready(const struct health *health, int64_t now_ns);

/* False while the ledger was last seen to be one that may forget accepted orders. The same. */
bool health_durable(const struct health *health);

/* How long the last question took, in ns; 0: none was answered yet. Any thread. */
int64_t health_took_ns(const struct health *health, enum health_server server);

/* Where the server is, for messages; as long as the health. Any thread. */
const char *health_place(const struct health *health, enum health_server server);

/* The state's word. */
const char *health_word(enum health_state state);

#endif
