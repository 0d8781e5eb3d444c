/* Limits of orders per user and per client address, asked for a whole batch in one call to
 * Redis. */
#ifndef STOCK_ORDERS_CHECK_RATE_H
#define STOCK_ORDERS_CHECK_RATE_H

#include "stock/order.h"
#include "stock/stock_core.h"

/* Opens the limits of one thread, which follow `rates` for as long as it is open; NULL for NULL.
 * `cluster`: they are kept in a cluster, in several slots. */
struct rate *rate_open(const struct stock_rates *rates, bool cluster);
void rate_close(struct rate **rate);

/* Posts the question for all open orders that were not let through before, if there are any: it
 * travels with what a strategy asks Redis first. The strategy must send it by rate_run, and accept
 * none of the orders before that. */
void rate_post(struct stock *stock, struct stock_order *const *orders, size_t count);

/* As stock_run_calls; if the question was in the pipeline its answer is read: orders over a limit
 * are decided, the others are noted as let through. If Redis is lost nothing is decided; the caller
 * sees that. If Redis refused the question, or the node of a cluster that has it is lost, all its
 * orders fail. */
bool rate_run(struct stock *stock);

/* Sends the question by itself if it still waits in the pipeline: the orders were decided without
 * Redis, and are counted all the same. */
void rate_finish(struct stock *stock);

/* Posts the question and sends it at once, for strategies that do not begin with Redis. If Redis is
 * lost the open orders are unavailable. */
void rate_ask(struct stock *stock, struct stock_order *const *orders, size_t count);

#endif
