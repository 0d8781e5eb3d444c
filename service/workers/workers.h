/* The workers: order workers, call workers, expiry worker, preparer. */
#ifndef SECKILL_SERVICE_WORKERS_WORKERS_H
#define SECKILL_SERVICE_WORKERS_WORKERS_H

#include <stddef.h>
#include <stdint.h>

#include "service/workers/calls.h"
#include "service/workers/expiry.h"
#include "service/workers/orders.h"
#include "service/workers/prepare.h"

enum { ORDER_WORKERS_MAX = 64 }; /* the upper end of the option order_workers */

/* Zero before the start. The owner's thread alone uses it. */
struct workers {
    struct order_worker *order_workers[ORDER_WORKERS_MAX];
    struct call_worker_thread *call_workers[CALL_KINDS];
    struct expiry_worker *expiry_worker;
    struct preparer *preparer; /* opened, and not started */
};

/* Starts all but the preparer. Servers need not be there. False with the reason in `error_out`; the
 * caller ends those that were started in any case. */
bool workers_start(struct workers *workers, struct service *service, char *error_out,
                   size_t error_size);

/* When the order worker that looked longest ago last began to look for orders (monotonic). */
int64_t workers_turned_ns(const struct workers *workers);

/* Tells the threads in the background to end, and does not wait; those that carry requests end with
 * service_stop_queues. */
void workers_stop(struct workers *workers);

/* Waits for all of them but the preparer, who gives the node number back: that is joined after
 * everybody who uses the ids. */
void workers_join(struct workers *workers);

#endif
