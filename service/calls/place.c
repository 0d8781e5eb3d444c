/* On which shard a sale begins: where its sku is already, or where a new one is put.
 *
 * why_not_where_it_is_down: a claim is for ever, so a new sku is claimed for no shard that cannot
 * take it now: the operator may name another. */
#include "service/calls/place.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "service/calls/hop.h"
#include "service/faults.h"
#include "service/workers/health.h"
#include "sql/ledger_shard.h"

void place_begin(const struct service *service, struct request *request)
{
    int known = service_shard_of_sku(service, request->call.sku);
    request_to_shard(service, request, known < 0 ? 0 : (unsigned)known);
}

static enum place refuse_down(struct request *request, unsigned shard)
{
    char detail[200];
    snprintf(detail, sizeof detail,
             "The ledger of shard %u cannot be asked now; nothing was done. A sku that has had no "
             "sale yet can be put on another: name its \"shard\".",
             shard);
    answer_detail(&request->answer, PROBLEM_LEDGER_UNAVAILABLE, detail);
    return PLACE_REFUSED;
}

static bool is_up(const struct service *service, unsigned shard)
{
    return service->shard_count == 1 || health_shard_up(service->health, shard, clock_now_ns());
}

/* Asks the directory, which the ledger of shard 0 holds. */
static enum place claim(const struct call_worker *worker, struct request *request,
                        unsigned *shard_out)
{
    const struct service *service = worker->service;
    const struct request_call *call = &request->call;
    unsigned wanted = call->shard >= 0 ? (unsigned)call->shard
                                       : ledger_sku_default(call->sku, service->shard_count);
    assert(worker->shard->number == 0);
    if (!is_up(service, wanted))
        return refuse_down(request, wanted);
    if (ledger_sku_claim(stock_ledger(worker->stock), call->sku, wanted, shard_out) == LEDGER_OK)
        return PLACE_HERE;
    answer_problem(&request->answer, faults_problem(worker->stock));
    return PLACE_REFUSED;
}

static enum place refuse_mismatch(struct request *request, unsigned shard)
{
    char extra[32];
    snprintf(extra, sizeof extra, ",\"shard\":%u", shard);
    answer_members(&request->answer, PROBLEM_OTHER_SHARD, NULL, extra);
    return PLACE_REFUSED;
}

enum place place_find(const struct call_worker *worker, struct request *request)
{
    const struct service *service = worker->service;
    int known = service_shard_of_sku(service, request->call.sku), named = request->call.shard;
    unsigned here = worker->shard->number, shard = known < 0 ? here : (unsigned)known;
    /* To another shard an unknown sku comes only from shard 0, which has asked. */
    if (known < 0 && here == 0 && claim(worker, request, &shard) != PLACE_HERE)
        return PLACE_REFUSED;
    if (named >= 0 && shard != (unsigned)named)
        return refuse_mismatch(request, shard);
    if (shard >= service->shard_count) {
        hop_answer_unlisted(&request->answer, shard);
        return PLACE_REFUSED;
    }
    if (shard == here)
        return PLACE_HERE;
    if (!is_up(service, shard))
        return refuse_down(request, shard);
    call_hop(request, shard);
    return PLACE_HOPS;
}
