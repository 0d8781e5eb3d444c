/* To which shard a request goes, where there are several. */
#include "service/calls/hop.h"

#include <assert.h>

#include "base/clock.h"
#include "service/workers/health.h"

enum { ALL_SHARDS = (1 << SHARDS_MAX) - 1 };

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

void call_hop(struct request *request, unsigned shard)
{
    request->call.hop = shard + 1;
}

bool hop_on_unknown(const struct call_worker *worker, struct request *request)
{
    int next = hop_next(worker->service, request, request->call.sku);
    if (next >= 0)
        call_hop(request, (unsigned)next);
    else
        answer_problem(&request->answer,
                       request->asked.short_of ? PROBLEM_UNAVAILABLE : PROBLEM_UNKNOWN_SKU);
    return next >= 0;
}

bool hop_on_unknown_order(const struct call_worker *worker, struct request *request)
{
    bool last = worker->shard->number == 0;
    bool up = last || health_shard_up(worker->service->health, 0, clock_now_ns());
    if (!last && up)
        call_hop(request, 0);
    else
        answer_problem(&request->answer, last ? PROBLEM_UNKNOWN_ORDER : PROBLEM_UNAVAILABLE);
    return !last && up;
}
