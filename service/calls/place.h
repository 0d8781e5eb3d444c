/* On which shard a sale begins: where its sku is already, or where a new one is put. */
#ifndef SECKILL_SERVICE_CALLS_PLACE_H
#define SECKILL_SERVICE_CALLS_PLACE_H

#include "service/calls/call.h"

enum place {
    PLACE_HERE,    /* on the shard of this worker */
    PLACE_HOPS,    /* on another: the call goes on to that shard's worker */
    PLACE_REFUSED, /* nowhere now: the request is answered */
};

/* For the handler of a reset whose sku is read: the call goes to the shard that the sku is known to
 * be on, or to shard 0, which has the directory. HTTP thread. */
void place_begin(const struct service *service, struct request *request);

/* For the work of a reset, before anything is done. A sku that this daemon does not know is looked
 * up in the directory, and put on request->call.shard, or where its hash says, when nobody has it
 * (ledger_sku_claim). Blocks for as long as the ledger takes. */
enum place place_find(const struct call_worker *worker, struct request *request);

#endif
