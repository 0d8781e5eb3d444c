/* Comparing a sale's segments in Redis with the ledger. */
#include "stock/sales/reconcile.h"

#include <stdlib.h>
#include <string.h>

#include "sql/orders/ledger_recovery.h"
#include "sql/ledger_segment.h"
#include "stock/sales/lock.h"
#include "stock/segment.h"

static void post_read(struct stock *stock, const struct lock_hold *lock)
{
    char key[SCRIPT_KEY_MAX];
    struct script_call *call = stock_call(stock);
    script_begin(call, SCRIPT_stock_read);
    lock_redis_key(STOCK_PREFIX, lock->name, "segment", key);
    script_key(call, key);
}

/* Compares one segment with its row. True, with the first reason found, when they differ. */
static bool differs(const struct script_call *redis, const struct ledger_segment *row,
                    struct stock_difference *difference)
{
    bool present = redis->values[0] == 1;
    difference->segment = row->segment;
    difference->redis_available = present ? redis->values[1] : -1;
    difference->ledger_available = (int64_t)row->capacity - row->sold;
    if (!present)
        difference->reason = STOCK_MISSING;
    else if (redis->values[2] != row->round)
        difference->reason = STOCK_OTHER_ROUND;
    else if (redis->values[3] != 0)
        difference->reason = STOCK_DIRTY;
    else if (redis->values[1] != difference->ledger_available)
        difference->reason = STOCK_MISMATCH;
    else
        return false;
    return true;
}

/* Raises the ledger's fences to those of the locks, so that no batch under way can commit any more,
 * and reads the segments. */
static bool read_ledger(struct stock *stock, const char *sku, const struct sale_lock *locked,
                        struct ledger_segment *rows)
{
    for (size_t i = 0; i < locked->count; i++) {
        rows[i].segment = (uint32_t)i;
        rows[i].fence = locked->holds[i].fence;
    }
    return ledger_recover(stock->ledger, sku, rows, locked->count) == LEDGER_OK;
}

/* Loads the segments; `loads_out` tells which call each got. */
static void post_loads(struct stock *stock, struct sale_lock *locked,
                       const struct ledger_segment *rows, size_t *loads_out)
{
    for (size_t i = 0; i < locked->count; i++) {
        if (rows[i].fence > locked->holds[i].fence)
            segment_post_fence(stock, &locked->holds[i], rows[i].fence);
        loads_out[i] = stock->call_count;
        segment_post_load(stock, &locked->holds[i], rows[i].capacity - rows[i].sold, rows[i].round,
                          rows[i].fence);
    }
}

static bool is_done(const struct script_call *call)
{
    return call->result == REDIS_ANSWERED && call->values[0] == 1;
}

/* After the loads were run. */
static void count_repaired(const struct stock *stock, const size_t *loads,
                           struct stock_report *report)
{
    report->consistent = true;
    for (size_t i = 0; i < report->segments; i++)
        report->consistent = report->consistent && is_done(&stock->calls[loads[i]]);
    for (size_t i = 0; i < report->difference_count; i++)
        report->repaired += is_done(&stock->calls[loads[report->differences[i].segment]]);
}

static bool reconcile_locked(struct stock *stock, const char *sku, struct sale_lock *locked,
                             struct stock_report *report, size_t *loads_out)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    if (!read_ledger(stock, sku, locked, rows))
        return false;
    for (size_t i = 0; i < locked->count; i++)
        if (rows[i].round == 0) /* the ledger has no such segment, or a reset has ended it */
            return false;
    for (size_t i = 0; i < locked->count; i++)
        post_read(stock, &locked->holds[i]);
    if (!stock_run_calls(stock) || stock_lost_node(stock, locked->count))
        return false;
    report->round = rows[0].round;
    report->segments = (uint32_t)locked->count;
    for (size_t i = 0; i < locked->count; i++)
        if (differs(&stock->calls[i], &rows[i], &report->differences[report->difference_count]))
            report->difference_count++;
    /* The ledger's fences were raised, so every segment is loaded again, whether it differs or
     * not. */
    post_loads(stock, locked, rows, loads_out);
    return true;
}

enum stock_admin_result stock_reconcile(struct stock *stock, const char *sku, int wait_ms,
                                        struct stock_report *report_out)
{
    struct sale_lock *locked = malloc(sizeof *locked);
    size_t loads[LEDGER_SEGMENTS_MAX];
    if (!locked)
        abort();
    memset(report_out, 0, sizeof *report_out);
    stock_revalidate(stock);
    enum stock_admin_result result = sale_lock_acquire(stock, sku, wait_ms, locked);
    if (result == STOCK_ADMIN_OK) {
        stock_run_posted(stock);
        bool done = reconcile_locked(stock, sku, locked, report_out, loads);
        sale_lock_release(stock, locked);
        if (done)
            count_repaired(stock, loads, report_out);
        struct sale *sale = sale_cache_find(stock->sale_cache, sku);
        if (sale)
            sale_invalidate(sale);
        result = done ? STOCK_ADMIN_OK : STOCK_ADMIN_FAILED;
    }
    free(locked);
    return result;
}
