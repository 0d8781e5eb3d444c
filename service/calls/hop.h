/* To which shard a request goes, where there are several.
 *
 * A request for an order goes to the shard that the order's id names, one for a known sale to that
 * sale's shard. One for an unknown sku hops: it visits the shards one after the other, through
 * their queues, until one knows the sku. It is refused as unknown only when all of them were asked.
 * Who is known to be down is not asked, so that no request waits for a time limit. */
#ifndef SECKILL_SERVICE_CALLS_HOP_H
#define SECKILL_SERVICE_CALLS_HOP_H

#include "service/calls/call.h"

/* The request goes to shard 0, until a handler says otherwise. HTTP thread, before the handler. */
void hop_begin(struct request *request);

/* For handlers: the request goes to this shard, or to shard 0 when there is no such. */
void request_to_shard(const struct service *service, struct request *request, unsigned shard);

/* For handlers: the request goes to the sku's shard, or to the first that can be asked for it. */
void request_to_sku(const struct service *service, struct request *request, const char *sku);

/* The next shard to be asked for a sku that the last one does not know: where the cache has it by
 * now, or else one that was not asked. -1: there is none; then request->asked.short_of says whether
 * all were asked. For whoever has the request. */
int hop_next(const struct service *service, struct request *request, const char *sku);

/* For the work of a call: the request goes on to this shard's worker of its kind, which does the
 * same work there, and it gets no answer here. Without a place in that queue it is refused. */
void call_hop(struct request *request, unsigned shard);

/* For the work of a call whose sku, in request->call, this shard does not know: the call goes on to
 * the next shard, or it is answered: as one for an unknown sku, or as unavailable when a shard
 * could not be asked. True when it goes on. */
bool hop_on_unknown(const struct call_worker *worker, struct request *request);

/* For the work of a call whose order this shard does not know: the same. Ids made by versions
 * before name any shard, and their orders are on shard 0. */
bool hop_on_unknown_order(const struct call_worker *worker, struct request *request);

#endif
