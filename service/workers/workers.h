/* The workers: threads that carry orders and calls, and threads in the background. */
#ifndef SECKILL_SERVICE_WORKERS_WORKERS_H
#define SECKILL_SERVICE_WORKERS_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/worker.h"
#include "service/service.h"

/* ---- one daemon of many ---- */

struct seclock_client;
struct seclock_handle;

/* Elects one daemon of many for a task, by a lock in Redis that its watchdog keeps. The daemon
 * proclaims its name, which `seclock --prefix seckill: status LOCK` shows.
 *
 * A daemon that outlives its lease works beside the next one for a moment, so the task must bear
 * that. The lock's fence does not guard it: after a Redis that came back empty with an earlier
 * clock all fences are smaller for a while.
 *
 * why_resign: a daemon that failed gives the lock back, because perhaps only this one is cut off
 * from the ledger. */
struct election {
    char name[32]; /* of the lock */
    struct seclock_client *locks;
    struct seclock_handle *held; /* NULL: this daemon is not elected */
};

enum election_result {
    ELECTION_HELD,   /* this daemon is elected */
    ELECTION_OTHER,  /* another daemon is */
    ELECTION_FAILED, /* not known, as Redis failed */
    ELECTION_NONE,   /* this daemon has resigned, or does not try yet */
};

/* What the elected daemon does; `self` is the worker's struct. */
struct election_task {
    const char *lock; /* its name */
    int period_ms;    /* between two turns */

    /* Does one turn's work. False: it failed, and the daemon resigns. */
    bool (*work)(void *self);

    /* Called once a turn, and at the end of the thread. */
    void (*tell)(void *self, enum election_result result);

    const char *won, *lost, *failed; /* events of the log */
    const char *lost_effect, *failed_effect;
};

/* True while this daemon is elected, as far as it can know without asking. The worker's thread. */
bool election_held(const struct election *election);

/* ---- one worker ---- */

/* The servers that a worker has its own connections to, as bits. */
enum { WORKER_OF_REDIS = 1, WORKER_OF_LEDGER = 2, WORKER_OF_STOCK = 4 };

/* The first member of each worker's struct. */
struct service_worker {
    struct worker thread;
    const struct worker_kind *kind;
    struct service *service;
    unsigned number; /* among the workers of its kind, from 0 */
    /* Some of these, as its kind's `servers` says. */
    struct redis *redis;
    struct ledger *ledger;
    struct stock *stock;
    struct election election; /* of a kind with a task */
};

/* `self` is the worker's struct, zeroed except for its service_worker. */
struct worker_kind {
    const char *name; /* the thread's name */
    size_t size;      /* of the worker's struct */
    unsigned servers;
    unsigned redis_ms_max, ledger_ms_max; /* bounds of their time-outs; 0: as configured */
    void (*run)(void *self);              /* the thread */
    const struct election_task *task;     /* in place of `run`: what one daemon of many does */

    /* Makes whatever else the worker needs. False: service->error says why. May be NULL. */
    bool (*open)(void *self);

    /* Frees that, also after a failed `open`, before the connections are closed. May be NULL. */
    void (*close)(void *self);
};

/* Makes a worker without its thread; its servers may still be down. NULL with the reason in
 * service->error. Main thread. */
struct service_worker *service_worker_open(const struct worker_kind *kind, struct service *service,
                                           unsigned number);

/* Starts the thread. */
void service_worker_start(struct service_worker *worker);

/* Tells the thread to end, and does not wait. NULL is fine. */
void service_worker_stop(struct service_worker *worker);

/* Tells the thread to end, waits for it, frees the worker and sets the pointer to NULL. NULL is
 * fine. */
void service_worker_join(struct service_worker **worker);

/* ---- the kinds ---- */

/* An order worker carries batches of orders from the queue through Redis and the ledger, and back
 * to the HTTP threads as answers, until the queue is stopped and empty. */
extern const struct worker_kind order_worker_kind;

/* When it last began to wait for orders (monotonic): each second, or after each batch. Any
 * thread. */
int64_t order_worker_turned_ns(const struct service_worker *worker);

/* A call worker carries the calls of the kind `number`, until their queue is stopped and empty. */
extern const struct worker_kind call_worker_kind;

/* The expiry worker, active in one daemon of many, lets unpaid orders expire. */
extern const struct worker_kind expiry_worker_kind;

/* The publisher, active in one daemon of many, gives events their positions. */
extern const struct worker_kind event_publisher_kind;

/* The feed's worker answers GET /events, until its queue is stopped and empty. */
extern const struct worker_kind event_feed_kind;
/* The webhook sender, active where the publisher is, delivers events to webhooks. */
extern const struct worker_kind webhook_sender_kind;

/* The invalidation listener forgets cached stock when other daemons change it. */
extern const struct worker_kind invalidation_listener_kind;

/* The preparer prepares the ledger at the start, and retries until the ledger answers. Its thread
 * ends once the service is prepared or cannot be. Closing it gives the node number back. */
extern const struct worker_kind preparer_kind;

/* Makes or upgrades the tables until `worker`, whose thread calls it, is told to stop (NULL: until
 * SIGTERM or SIGINT is pending); logs long steps every 5 s. LEDGER_OK, or LEDGER_FAILED with the
 * reason in ledger_error. */
enum ledger_result preparer_migrate(struct ledger *ledger, const struct worker *worker);

/* ---- all of these ---- */

enum { ORDER_WORKERS_MAX = 64 }; /* the upper end of the option order_workers */

/* All zeros before the start. Only the owner's thread uses it. */
struct workers {
    struct service_worker *order_workers[ORDER_WORKERS_MAX];
    struct service_worker *call_workers[CALL_KINDS];
    struct service_worker *expiry_worker;
    struct service_worker *event_publisher; /* NULL while events are off */
    struct service_worker *webhook_sender;  /* NULL while events are off */
    struct service_worker *invalidation_listener;
    struct service_worker *preparer; /* opened but not started */
};

/* Starts all but the preparer. False with the reason in service->error; in either case the caller
 * ends the workers that were started. */
bool workers_start(struct workers *workers, struct service *service);

/* Start time of the oldest current turn among the order workers (monotonic). */
int64_t workers_turned_ns(const struct workers *workers);

/* Tells the expiry worker, the publisher, the webhook sender and the preparer to end, and does not
 * wait; service_stop_queues ends the workers that carry requests. */
void workers_stop(struct workers *workers);

/* Waits for all workers; call it once nobody else uses the ids or the node. */
void workers_join(struct workers *workers);

#endif
