/* The stock as one thread sees it: its connections to Redis and the ledger, opened and closed. */
#ifndef STOCK_STOCK_H
#define STOCK_STOCK_H

#include "base/fault.h"
#include "sql/ledger/ledger.h"
#include "stock/order.h"
#include "stock/sale_cache.h"
#include "stock/types.h"

/* Opens a client of Redis and of the ledger without connecting. The cache is shared with other
 * threads and outlives the stock. NULL with the reason in `error_out`. */
struct stock *stock_open(const struct stock_options *options, struct sale_cache *cache,
                         char *error_out, size_t error_size);
void stock_close(struct stock **stock);

/* Settles and releases what the last stock_sell left to be done; cheap when nothing is due. Call it
 * when no next batch is waiting. */
void stock_flush(struct stock *stock);

/* The connection to Redis, for commands by the thread that owns the stock, between its calls. */
struct redis *stock_redis(struct stock *stock);

/* The connection's ledger, for look-ups by the thread that owns the stock. */
struct ledger *stock_ledger(struct stock *stock);

struct stock_stats stock_stats(const struct stock *stock);

/* The failures at a server in the calls on this stock since the caller last cleared them. The
 * failures of STOCK_LOCKS, the guard lock's servers, name the server in their text. */
struct fault *stock_fault(struct stock *stock, enum stock_server server);

/* The rows that other transactions held, in the calls on this stock since the caller last cleared
 * the count. */
struct stock_held *stock_held(struct stock *stock);

/* Where the server is, for messages; "" for STOCK_LOCKS. */
const char *stock_place(const struct stock *stock, enum stock_server server);

/* How many orders one stock_sell should be given at most: 1 for a strategy that takes orders one at
 * a time. */
size_t stock_batch_max(const struct stock *stock);

/* Decides `count` <= STOCK_BATCH_MAX orders, blocking for as long as Redis and the ledger take
 * (their timeouts bound it). No outcome is left at STOCK_OPEN. Accepted means committed. What has
 * to follow a commit in Redis is sent with the next call, or by stock_flush: after a batch that
 * decided nothing, flush before trying again, so that what was given back is there for others. */
void stock_sell(struct stock *stock, struct stock_order *const *orders, size_t count);

#endif
