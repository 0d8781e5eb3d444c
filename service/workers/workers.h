/* The workers: threads that carry orders and calls, and threads in the background.
 *
 * A worker has connections of its own. X_start starts the thread; servers need not be there yet.
 * NULL with the reason in `error_out`. X_stop tells it to end and does not wait; X_join waits for
 * it, frees it and sets the pointer to NULL. Both take NULL. */
#ifndef SECKILL_SERVICE_WORKERS_WORKERS_H
#define SECKILL_SERVICE_WORKERS_WORKERS_H

#include <stddef.h>
#include <stdint.h>

#include "service/service.h"

/* ---- all but health ---- */

enum { ORDER_WORKERS_MAX = 64 }; /* the upper end of the option order_workers */

/* Zero before the start. The owner's thread alone uses it. */
struct workers {
    struct order_worker *order_workers[ORDER_WORKERS_MAX];
    struct call_worker_thread *call_workers[CALL_KINDS];
    struct expiry_worker *expiry_worker;
    struct invalidation_listener *invalidation_listener;
    struct preparer *preparer; /* opened, and not started */
};

/* Starts all but the preparer. False with the reason in `error_out`; the caller ends those that
 * were started in any case. */
bool workers_start(struct workers *workers, struct service *service, char *error_out,
                   size_t error_size);

/* When the order worker that looked longest ago last began to look for orders (monotonic). */
int64_t workers_turned_ns(const struct workers *workers);

/* Tells the expiry worker and the preparer to end, and does not wait; the workers that carry
 * requests end with service_stop_queues. */
void workers_stop(struct workers *workers);

/* Waits for all of them but the preparer, who gives the node number back: that is joined after
 * everybody who uses the ids. */
void workers_join(struct workers *workers);

/* ---- orders and calls ---- */

/* An order worker carries batches of orders from the queue through Redis and the ledger, and back
 * to the HTTP threads as answers, until the queue is stopped and empty. */
struct order_worker *order_worker_start(struct service *service, char *error_out,
                                        size_t error_size);
void order_worker_join(struct order_worker **worker);

/* When it last began to look for orders (monotonic): each second, or after each batch. Any
 * thread. */
int64_t order_worker_turned_ns(const struct order_worker *worker);

/* A call worker carries the calls of one kind until their queue is stopped and empty. */
struct call_worker_thread *call_worker_start(struct service *service, enum call_kind kind,
                                             char *error_out, size_t error_size);
void call_worker_join(struct call_worker_thread **thread);

/* ---- in the background ---- */

/* The expiry worker, which one daemon of many has at work, lets unpaid orders expire. */
struct expiry_worker *expiry_worker_start(struct service *service, char *error_out,
                                          size_t error_size);
void expiry_worker_stop(struct expiry_worker *worker);
void expiry_worker_join(struct expiry_worker **worker);

/* The invalidation listener forgets cached stock when other daemons change it. */
struct invalidation_listener *invalidation_listener_start(struct service *service, char *error_out,
                                                          size_t error_size);
void invalidation_listener_join(struct invalidation_listener **listener);

/* The preparer prepares the ledger at the start, and tries again until the ledger answers. It is
 * opened with the other workers; its thread ends when the service is prepared or cannot be. */
struct preparer *preparer_open(struct service *service, char *error_out, size_t error_size);
void preparer_start(struct preparer *preparer);
void preparer_stop(struct preparer *preparer);

/* Waits for the thread, gives the node number back, and frees the preparer: after all threads that
 * use the ids or the node. */
void preparer_join(struct preparer **preparer);

/* True when the ledger cannot serve this daemon, or another daemon has its node number, with the
 * reason in `error_out`: then the daemon cannot serve. Any thread. */
bool preparer_refused(const struct preparer *preparer, char *error_out, size_t error_size);

#endif
