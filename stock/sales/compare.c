/* Compares a sale's segments in Redis with the ledger: an audit changes nothing, a reconcile sets
 * them again under their locks. */
#include "stock/sales/sales.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "stock/sales/lock.h"

static void post_read(struct stock *stock, const char *sku, uint32_t segment)
{
    char name[SECLOCK_NAME_MAX], key[SCRIPT_KEY_MAX];
    struct script_call *call = stock_call(stock);
    script_begin(call, SCRIPT_stock_read);
    segment_name(sku, segment, name);
    lock_redis_key(STOCK_PREFIX, name, "segment", key);
    script_key(call, key);
}

static struct stock_cached read_cached(const struct script_call *call)
{
    if (call->values[0] != 1)
        return (struct stock_cached){.present = false};
    return (struct stock_cached){
        .present = true,
        .available = call->values[1],
        .round = (uint32_t)call->values[2],
        .open = call->values[3] != 0,
        .settled = (uint64_t)call->values[4],
    };
}

/* Reads `count` segments from Redis into stock->calls. False when an answer is missing. */
static bool read_segments(struct stock *stock, const char *sku, const struct ledger_segment *rows,
                          size_t count)
{
    assert(count > 0 && count <= LEDGER_SEGMENTS_MAX);
    stock_flush(stock);
    for (size_t i = 0; i < count; i++)
        post_read(stock, sku, rows[i].segment);
    if (!stock_run_calls(stock))
        return false;
    /* A cluster may lose single nodes. */
    for (size_t i = 0; i < count && redis_cluster(stock->redis); i++)
        if (stock->calls[i].result != REDIS_ANSWERED)
            return false;
    return true;
}

/* `fence`: the fence at which the segment should be settled. */
static const char *state_of(const struct ledger_segment *row, const struct stock_cached *cached,
                            uint64_t fence)
{
    if (!cached->present)
        return "missing";
    if (cached->open)
        return "dirty";
    if (cached->round != row->round)
        return "round";
    if (cached->settled != fence)
        return "stale";
    return cached->available == (int64_t)row->capacity - row->sold ? "ok" : "mismatch";
}

/* ---- audit ---- */

static void take_sale(const struct ledger_sale *sale, const struct ledger_segment *segments,
                      size_t count, void *context)
{
    struct stock_audit *audit = context;
    assert(count <= LEDGER_SEGMENTS_MAX);
    audit->sale = *sale;
    audit->count = count;
    memcpy(audit->segments, segments, count * sizeof *segments);
}

enum stock_admin_result stock_audit(struct stock *stock, const char *sku,
                                    struct stock_audit *audit_out)
{
    audit_out->count = 0;
    stock_revalidate(stock);
    if (ledger_stock_find(stock->ledger, &sku, 1, true, take_sale, audit_out) != LEDGER_OK)
        return STOCK_ADMIN_FAILED;
    if (audit_out->count == 0)
        return STOCK_ADMIN_NO_SALE;
    if (!read_segments(stock, sku, audit_out->segments, audit_out->count))
        return STOCK_ADMIN_FAILED;
    for (size_t i = 0; i < audit_out->count; i++)
        audit_out->cached[i] = read_cached(&stock->calls[i]);
    return STOCK_ADMIN_OK;
}

const char *stock_audit_state(const struct ledger_segment *row, const struct stock_cached *cached)
{
    return state_of(row, cached, row->fence);
}

/* ---- reconcile ---- */

/* Raises the ledger's fences to the locks' fences, so that no batch under way can commit any more,
 * and reads the segments. False also when a reset has ended one of them. */
static bool read_ledger(struct stock *stock, const char *sku, const struct sale_lock *locked,
                        struct ledger_segment *rows)
{
    for (size_t i = 0; i < locked->count; i++) {
        rows[i].segment = (uint32_t)i;
        rows[i].fence = locked->holds[i].lock.fence;
    }
    bool found = ledger_recover(stock->ledger, sku, rows, locked->count) == LEDGER_OK;
    for (size_t i = 0; i < locked->count; i++)
        found = found && rows[i].round != 0;
    return found;
}

/* Compares contents only: read_ledger has raised the rows' fences above those in Redis. */
static void list_differences(const struct stock *stock, const struct ledger_segment *rows,
                             struct stock_report *report)
{
    for (size_t i = 0; i < report->segments; i++) {
        struct stock_cached cached = read_cached(&stock->calls[i]);
        const char *state = state_of(&rows[i], &cached, cached.settled);
        if (strcmp(state, "ok") != 0)
            report->differences[report->difference_count++] = (struct stock_difference){
                .segment = rows[i].segment,
                .reason = state,
                .redis_available = cached.present ? cached.available : -1,
                .ledger_available = (int64_t)rows[i].capacity - rows[i].sold,
            };
    }
}

/* Call it after the loads have run. */
static void count_repaired(const struct stock *stock, const struct sale_lock *locked,
                           struct stock_report *report)
{
    report->consistent = true;
    for (size_t i = 0, next = 0; i < report->segments; i++) {
        const struct script_call *load = &stock->calls[locked->holds[i].call];
        bool done = load->result == REDIS_ANSWERED && load->values[0] == 1;
        report->consistent = report->consistent && done;
        if (next < report->difference_count && report->differences[next].segment == i) {
            report->repaired += done;
            next++;
        }
    }
    assert(report->repaired <= report->difference_count);
}

/* Loads every segment again, even without a difference, because the ledger's fences were raised. */
static bool reconcile_locked(struct stock *stock, const char *sku, struct sale_lock *locked,
                             struct stock_report *report)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    if (!read_ledger(stock, sku, locked, rows) || !read_segments(stock, sku, rows, locked->count)) {
        sale_lock_release(stock, locked);
        return false;
    }
    report->round = rows[0].round;
    report->segments = (uint32_t)locked->count;
    list_differences(stock, rows, report);
    sale_lock_post_round(stock, locked, report->round, rows, report->segments);
    sale_lock_release(stock, locked);
    count_repaired(stock, locked, report);
    return true;
}

enum stock_admin_result stock_reconcile(struct stock *stock, const char *sku, int wait_ms,
                                        struct stock_report *report_out)
{
    struct sale_lock *locked = memory_must(malloc(sizeof *locked));
    memset(report_out, 0, sizeof *report_out);
    stock_revalidate(stock);
    enum stock_admin_result result = sale_lock_acquire(stock, sku, wait_ms, locked);
    if (result == STOCK_ADMIN_OK) {
        if (!reconcile_locked(stock, sku, locked, report_out))
            result = STOCK_ADMIN_FAILED;
        struct sale *sale = sale_cache_find(stock->sale_cache, sku);
        if (sale)
            sale_invalidate(sale);
    }
    free(locked);
    return result;
}
