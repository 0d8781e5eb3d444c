/* To which shard a request goes, where there are several.
 *
 * A request for an order goes to the shard that the order's id names, one for a known sale to that
 * sale's shard. One for an unknown sku goes to shard 0, whose ledger has the directory of skus, and
 * hops on to the shard that the directory says. Without shard 0 it visits the shards one after the
 * other, through their queues, until one knows the sku. It is refused as unknown only when none can
 * have it. Who is known to be down is not asked, so that no request waits for a time limit.
 *
 * why_unlisted: while a ledger is added to the lists of the daemons, one after the other, some of
 * them do not know it yet. A sku or an order of that ledger is not unknown to these: they cannot
 * ask, and say so. */
#ifndef SECKILL_SERVICE_CALLS_HOP_H
#define SECKILL_SERVICE_CALLS_HOP_H

#include "service/calls/call.h"

/* The request goes to shard 0, until a handler says otherwise. HTTP thread, before the handler. */
void hop_begin(struct request *request);

/* For handlers: the request goes to this shard, or to shard 0 when there is no such. */
void request_to_shard(const struct service *service, struct request *request, unsigned shard);

/* For handlers: the request goes to the sku's shard, or to the first that can be asked for it. */
void request_to_sku(const struct service *service, struct request *request, const char *sku);

/* Asks the directory for the skus of requests that shard 0 does not know, for hop_next and the
 * answers; `directory` is shard 0's ledger. Without an answer nothing changes. At most
 * LEDGER_ORDERS_MAX. Whoever has the requests, and the ledger. */
void hop_look_up(const struct service *service, struct ledger *directory,
                 struct request *const *requests, const char *const *skus, size_t count);

/* Asks the directory whether there are shards that this daemon does not list, and remembers for
 * 100 ms that there are none. LEDGER_OK: `shard_out` is one. LEDGER_NO or LEDGER_FAILED. For the
 * thread of shard 0's worker. */
enum ledger_result hop_unlisted(struct call_worker *worker, unsigned *shard_out);

/* Refuses what is on a shard that this daemon does not list, and logs it. Any thread. */
void hop_answer_unlisted(struct answer *answer, unsigned shard);

/* The next shard to be asked for a sku that the last one does not know: where the cache has it by
 * now, or else one that was not asked. -1: there is none; then request->asked.short_of says whether
 * all were asked. For whoever has the request. */
int hop_next(const struct service *service, struct request *request, const char *sku);

/* For the work of a call: the request goes on to this shard's worker of its kind, which does the
 * same work there, and it gets no answer here. Without a place in that queue it is refused. */
void call_hop(struct request *request, unsigned shard);

/* For the work of a call whose sku, in request->call, this shard does not know: the call goes on to
 * the next shard, or it is answered: as one for an unknown sku, or as unavailable when a shard
 * could not be asked. True when it goes on. Asks the directory unless hop_look_up has. */
bool hop_on_unknown(struct call_worker *worker, struct request *request);

/* For the work of a call whose order this shard does not know: the same. Ids made by versions
 * before name any shard, and their orders are on shard 0. */
bool hop_on_unknown_order(struct call_worker *worker, struct request *request);

#endif
