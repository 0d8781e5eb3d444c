/* Limits of orders per user and per client address, asked for a whole batch in one call. */
#ifndef STOCK_CHECK_RATE_H
#define STOCK_CHECK_RATE_H

#include "stock/stock_private.h"

/* NULL when no limit is set. */
struct rate *rate_open(const struct stock_rates *rates);
void rate_close(struct rate **rate);

/* Posts the question for all open orders that were not let through before, if there are any. It
 * must have been run before one of them is accepted: stock_run_calls reads the answer. */
void rate_post(struct stock *stock, struct stock_order *const *orders, size_t count);

/* True from rate_post until the answer was read. */
bool rate_posted(const struct stock *stock);

/* Decides the orders that are over a limit; notes the others as let through. Without an answer none
 * is: when Redis is lost that is for the caller to see, and when it refused they all fail. */
void rate_read(struct stock *stock);

#endif
