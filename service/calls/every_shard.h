/* Calls that ask the ledgers of all shards: the call worker of shard 0 carries them, over
 * connections of its own to the other ledgers.
 *
 * why_one_worker: what such a call collects is with one thread until it is answered, so nothing of
 * it waits in queues, and nothing is left when the client goes. It needs every ledger, so there is
 * no point in going on where one is away: a list that lacks a shard would look complete. */
#ifndef SECKILL_SERVICE_CALLS_EVERY_SHARD_H
#define SECKILL_SERVICE_CALLS_EVERY_SHARD_H

#include <stdbool.h>
#include <stddef.h>

#include "service/calls/call.h"

/* For the thread of the worker alone, each of them. */

/* The shards that a call asks: from `first` on so many. */
struct shard_range {
    unsigned first, count;
    bool all; /* of the list; then there may be more */
};

/* All of them; or that of a sku that is known, "" for none: all of its orders are there. */
struct shard_range every_shard_of(const struct call_worker *worker, const char *sku);

/* False when a ledger of these is known not to answer, so that no call waits for it, or when all
 * are asked and others list further ones: then the request is answered 503, with the shard that
 * lacks. With one ledger only the latter. */
bool every_shard_up(struct call_worker *worker, struct shard_range range, struct request *request);

/* The worker's connection to a shard's ledger, made when first asked for. */
struct ledger *every_shard_ledger(struct call_worker *worker, unsigned shard);

/* The problem to refuse a call by that could not ask all ledgers. */
enum problem every_shard_problem(struct call_worker *worker);

/* Forgets what failed at the other ledgers before. */
void every_shard_begin(struct call_worker *worker);

/* Logs what failed there since, as faults_log does for the worker's own servers. True when
 * something did. */
bool every_shard_log(struct call_worker *worker, const char *event, size_t calls,
                     const char *effect, const struct trace *example);

/* Closes the connections to the other ledgers. */
void every_shard_close(struct call_worker *worker);

#endif
