/* The preparer: a thread that prepares the ledger at the start, and tries again until it is
 * there. */
#ifndef SECKILL_SERVICE_WORKERS_PREPARE_H
#define SECKILL_SERVICE_WORKERS_PREPARE_H

#include <stddef.h>

#include "service/service.h"

struct preparer;

/* Makes the preparer, with a connection of its own. NULL with the reason in `error_out`. */
struct preparer *preparer_open(struct service *service, char *error_out, size_t error_size);

/* Starts the thread, which ends when the service is prepared or cannot be. */
void preparer_start(struct preparer *preparer);

/* True when the ledger is none for this daemon, or another daemon has its node number, with the reason in `error_out`: then the
 * daemon cannot serve. Any thread. */
bool preparer_refused(const struct preparer *preparer, char *error_out, size_t error_size);

/* Tells the thread to end, and does not wait for it. NULL is fine. */
void preparer_stop(struct preparer *preparer);

/* Waits for the thread, gives the node number back, and frees the preparer. NULL is fine. After all
 * threads that use the ids or the node. */
void preparer_join(struct preparer **preparer);

#endif
