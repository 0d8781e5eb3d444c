/* Looking at a sale for an audit: its segments in the ledger and in Redis, changing nothing. */
#include "stock/sales/audit.h"

#include <string.h>

#include "lock/redis/pipeline.h"
#include "sql/sales/ledger_stock.h"
#include "stock/segment.h"
#include "stock/stock_core.h"

static void take_sale(const struct ledger_sale *sale, const struct ledger_segment *segments,
                      size_t count, void *context)
{
    struct stock_audit *audit = context;
    audit->sale = *sale;
    audit->count = count;
    memcpy(audit->segments, segments, count * sizeof *segments);
}

static void post_read(struct stock *stock, const char *sku, uint32_t segment)
{
    char name[SECLOCK_NAME_MAX], key[SCRIPT_KEY_MAX];
    struct script_call *call = stock_call(stock);
    script_begin(call, SCRIPT_stock_read);
    segment_name(sku, segment, name);
    lock_redis_key(STOCK_PREFIX, name, "segment", key);
    script_key(call, key);
}

static void read_cached(const struct script_call *call, struct stock_cached *cached)
{
    *cached = (struct stock_cached){.present = call->values[0] == 1};
    if (!cached->present)
        return;
    cached->available = call->values[1];
    cached->round = (uint32_t)call->values[2];
    cached->open = call->values[3] != 0;
    cached->settled = (uint64_t)call->values[4];
}

enum stock_admin_result stock_audit(struct stock *stock, const char *sku,
                                    struct stock_audit *audit_out)
{
    audit_out->count = 0;
    stock_revalidate(stock);
    if (ledger_stock_find_as_it_is(stock->ledger, sku, take_sale, audit_out) != LEDGER_OK)
        return STOCK_ADMIN_FAILED;
    if (audit_out->count == 0)
        return STOCK_ADMIN_NO_SALE;
    stock_run_posted(stock);
    for (size_t i = 0; i < audit_out->count; i++)
        post_read(stock, sku, audit_out->segments[i].segment);
    if (!stock_run_calls(stock) || stock_lost_node(stock, audit_out->count))
        return STOCK_ADMIN_FAILED;
    for (size_t i = 0; i < audit_out->count; i++)
        read_cached(&stock->calls[i], &audit_out->cached[i]);
    return STOCK_ADMIN_OK;
}

const char *stock_audit_state(const struct ledger_segment *row, const struct stock_cached *cached)
{
    if (!cached->present)
        return "missing";
    if (cached->open)
        return "dirty";
    if (cached->round != row->round)
        return "round";
    if (cached->settled != row->fence)
        return "stale";
    return cached->available == (int64_t)row->capacity - row->sold ? "ok" : "mismatch";
}
