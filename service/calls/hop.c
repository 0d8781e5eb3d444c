/* To which shard a request goes, where there are several. */
#include "service/calls/hop.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "service/log.h"
#include "service/order_id.h"
#include "service/workers/health.h"
#include "sql/ledger_shard.h"

enum { ALL_SHARDS = (1 << SHARDS_MAX) - 1, UNLISTED_MS = 100 };

void hop_begin(struct request *request)
{
    request_set_shard(request, 0);
    request->asked = (struct request_asked){.shards = 0};
    request->call.hop = 0;
}

void request_to_shard(const struct service *service, struct request *request, unsigned shard)
{
    request_set_shard(request, shard < service->shard_count ? shard : 0);
}

/* A sale that the cache has is on that shard and no other, retired meanwhile or not. */
static int known_shard(const struct service *service, struct request *request, const char *sku)
{
    int known = service_shard_of_sku(service, sku);
    if (known >= 0)
        request->asked.shards = ALL_SHARDS;
    return known;
}

static int next_unasked(const struct service *service, struct request *request)
{
    int64_t now_ns = clock_now_ns();
    for (unsigned i = 0; i < service->shard_count; i++) {
        if (request->asked.shards & (1U << i))
            continue;
        request->asked.shards |= 1U << i;
        if (health_shard_up(service->health, i, now_ns))
            return (int)i;
        request->asked.short_of = true;
    }
    return -1;
}

void request_to_sku(const struct service *service, struct request *request, const char *sku)
{
    if (service->shard_count == 1)
        return;
    int shard = known_shard(service, request, sku);
    if (shard < 0)
        shard = next_unasked(service, request);
    request_to_shard(service, request, shard < 0 ? 0 : (unsigned)shard);
}

int hop_next(const struct service *service, struct request *request, const char *sku)
{
    if (service->shard_count == 1 || request->asked.shards == ALL_SHARDS)
        return -1;
    int known = known_shard(service, request, sku);
    return known >= 0 ? known : next_unasked(service, request);
}

/* ---- the directory ---- */

static bool all_others_up(const struct service *service)
{
    int64_t now_ns = clock_now_ns();
    for (unsigned i = 1; i < service->shard_count; i++)
        if (!health_shard_up(service->health, i, now_ns))
            return false;
    return true;
}

/* What the directory does not have was put on no other shard; but the directory may be an older one
 * than the ledgers, restored by hand, so a ledger that is down may have it. */
static void note_place(const struct service *service, struct request *request, int shard)
{
    struct request_asked *asked = &request->asked;
    unsigned others = ALL_SHARDS;
    if (shard >= (int)service->shard_count)
        asked->unlisted = (unsigned)shard;
    else if (shard > 0)
        others &= ~(1U << shard);
    asked->shards |= others;
    asked->short_of |= asked->unlisted > 0 || (shard < 0 && !all_others_up(service));
}

void hop_look_up(const struct service *service, struct ledger *directory,
                 struct request *const *requests, const char *const *skus, size_t count)
{
    struct ledger_sku_place places[LEDGER_ORDERS_MAX];
    assert(count <= LEDGER_ORDERS_MAX);
    for (size_t i = 0; i < count; i++) {
        places[i] = (struct ledger_sku_place){.sku = skus[i]};
        requests[i]->asked.looked_up = true;
    }
    if (count == 0 || ledger_skus_look_up(directory, places, count) != LEDGER_OK)
        return;
    for (size_t i = 0; i < count; i++)
        note_place(service, requests[i], places[i].shard);
}

enum ledger_result hop_unlisted(struct call_worker *worker, unsigned *shard_out)
{
    struct unlisted *known = &worker->unlisted;
    int64_t now_ns = clock_now_ns();
    assert(worker->shard->number == 0);
    bool old = known->asked_ns == 0 || now_ns - known->asked_ns > UNLISTED_MS * CLOCK_NS_PER_MS;
    if (known->shard == 0 && old) {
        enum ledger_result result = ledger_shard_beyond(
            stock_ledger(worker->stock), worker->service->shard_count, &known->shard);
        if (result == LEDGER_FAILED)
            return result;
        known->asked_ns = now_ns;
    }
    *shard_out = known->shard;
    return known->shard > 0 ? LEDGER_OK : LEDGER_NO;
}

void hop_answer_unlisted(struct answer *answer, unsigned shard)
{
    char detail[160];
    snprintf(detail, sizeof detail,
             "It is on shard %u, and mysql_url of this daemon lists no such ledger; nothing was "
             "done.",
             shard);
    answer_detail(answer, PROBLEM_UNAVAILABLE, detail);
    log_failure(LOG_WARN, "shard_unlisted", "ledger", "shard=%u effect=%s", shard,
                LOG_QUOTE("this daemon answers 503 for the skus and orders of that shard, and for "
                          "lists; add its ledger to mysql_url, as other daemons have"));
}

/* ---- calls ---- */

void call_hop(struct request *request, unsigned shard)
{
    request->call.hop = shard + 1;
}

bool hop_on_unknown(struct call_worker *worker, struct request *request)
{
    const char *sku = request->call.sku;
    if (worker->shard->number == 0 && !request->asked.looked_up &&
        request->asked.shards != ALL_SHARDS)
        hop_look_up(worker->service, stock_ledger(worker->stock), &request, &sku, 1);
    int next = hop_next(worker->service, request, sku);
    if (next >= 0)
        call_hop(request, (unsigned)next);
    else if (request->asked.unlisted > 0)
        hop_answer_unlisted(&request->answer, request->asked.unlisted);
    else
        answer_problem(&request->answer,
                       request->asked.short_of ? PROBLEM_UNAVAILABLE : PROBLEM_UNKNOWN_SKU);
    return next >= 0;
}

/* Shard 0 has no such order. Its id may name a shard that this daemon does not list. */
static void answer_no_order(struct call_worker *worker, struct request *request)
{
    unsigned shard = order_id_shard(request->call.order_id), unlisted = 0;
    enum ledger_result beyond = LEDGER_NO;
    if (shard >= worker->service->shard_count)
        beyond = hop_unlisted(worker, &unlisted);
    if (beyond == LEDGER_OK)
        hop_answer_unlisted(&request->answer, shard);
    else
        answer_problem(&request->answer,
                       beyond == LEDGER_NO ? PROBLEM_UNKNOWN_ORDER : PROBLEM_UNAVAILABLE);
}

bool hop_on_unknown_order(struct call_worker *worker, struct request *request)
{
    bool last = worker->shard->number == 0;
    bool up = last || health_shard_up(worker->service->health, 0, clock_now_ns());
    if (last)
        answer_no_order(worker, request);
    else if (up)
        call_hop(request, 0);
    else
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE);
    return !last && up;
}
