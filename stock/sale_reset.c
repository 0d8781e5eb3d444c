/* A sale's next round, or its first. */
#include "stock/sale_reset.h"

#include <assert.h>
#include <stdlib.h>

#include "sql/ledger_reset.h"
#include "sql/ledger_segment.h"
#include "stock/sale_lock.h"

enum { TRIES_MAX = 5 }; /* resets to more segments that came in between */

/* How many segments to lock: as many as the sale has or will have, as both rounds change. */
static enum ledger_result segments_to_lock(struct stock *stock, const char *sku, uint32_t wanted,
                                           size_t *count_out)
{
    struct ledger_sale row = {.segments = 0};
    enum ledger_result result = ledger_sale_find(stock->ledger, sku, &row);
    *count_out = row.segments > wanted ? row.segments : wanted;
    return result == LEDGER_NO ? LEDGER_OK : result;
}

static enum stock_admin_result reset_locked(struct stock *stock, struct ledger_sale *sale,
                                            struct sale_lock *locked)
{
    uint64_t fences[LEDGER_SEGMENTS_MAX];
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    assert(locked->count >= sale->segments);
    if (!sale_cache_find(stock->sale_cache, sale->sku) &&
        sale_cache_count(stock->sale_cache) >= SALES_MAX) {
        sale_lock_release(stock, locked);
        return STOCK_ADMIN_FULL;
    }
    if (!sale_lock_mark(stock, locked)) {
        sale_lock_release(stock, locked);
        return STOCK_ADMIN_FAILED;
    }
    sale_lock_fences(locked, fences);
    enum ledger_result result = ledger_reset(stock->ledger, sale, fences, rows);
    if (result == LEDGER_OK)
        sale_lock_post_round(stock, locked, sale, rows);
    else if (result != LEDGER_UNKNOWN)
        sale_lock_post_unmark(stock, locked);
    sale_lock_release(stock, locked);
    if (result == LEDGER_OK)
        sale_publish(stock, sale);
    return result == LEDGER_OK        ? STOCK_ADMIN_OK
           : result == LEDGER_UNKNOWN ? STOCK_ADMIN_IN_DOUBT
                                      : STOCK_ADMIN_FAILED;
}

/* Tries once; `again_out` tells that the sale has got more segments than were locked, so that the
 * next try locks more. */
static enum stock_admin_result try_once(struct stock *stock, struct ledger_sale *sale, int wait_ms,
                                        struct sale_lock *locked, bool *again_out)
{
    size_t wanted = 0;
    *again_out = false;
    if (segments_to_lock(stock, sale->sku, sale->segments, &wanted) != LEDGER_OK)
        return STOCK_ADMIN_FAILED;
    enum stock_admin_result result =
        sale_lock_acquire_first(stock, sale->sku, wanted, wait_ms, locked);
    if (result != STOCK_ADMIN_OK)
        return result;
    enum ledger_result found = segments_to_lock(stock, sale->sku, sale->segments, &wanted);
    if (found == LEDGER_OK && wanted <= locked->count)
        return reset_locked(stock, sale, locked);
    sale_lock_release(stock, locked);
    *again_out = found == LEDGER_OK;
    return *again_out ? STOCK_ADMIN_BUSY : STOCK_ADMIN_FAILED;
}

enum stock_admin_result stock_reset(struct stock *stock, struct ledger_sale *sale, int wait_ms)
{
    struct sale_lock *locked = malloc(sizeof *locked);
    enum stock_admin_result result = STOCK_ADMIN_BUSY;
    bool again = true;
    if (!locked)
        abort();
    assert(sale->segments > 0 && sale->segments <= LEDGER_SEGMENTS_MAX);
    assert(sale->segments <= sale->total);
    stock_revalidate(stock);
    for (int tries = 0; tries < TRIES_MAX && again; tries++)
        result = try_once(stock, sale, wait_ms, locked, &again);
    free(locked);
    return result;
}
