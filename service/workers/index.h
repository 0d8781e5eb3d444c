/* The order indexer: a thread that indexes committed orders by user, in the background. */
#ifndef SECKILL_SERVICE_WORKERS_INDEX_H
#define SECKILL_SERVICE_WORKERS_INDEX_H

#include "service/service.h"

struct order_indexer;

/* Starts the thread, which begins its work once the service is prepared. NULL with the reason in
 * `error_out`. */
struct order_indexer *order_indexer_start(struct service *service, char *error_out,
                                          size_t error_size);

/* Tells the thread to end after its present transaction, and does not wait for it. NULL is fine. */
void order_indexer_stop(struct order_indexer *indexer);

/* Waits for the thread to end, and frees it. */
void order_indexer_join(struct order_indexer **indexer);

#endif
