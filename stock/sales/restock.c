/* Adds units to a running sale and levels its segments.
 *
 * As in a reset, all segments are locked and marked open, one transaction changes them and raises
 * their fences to those of the locks, and Redis is loaded from the ledger: a process that dies in
 * between leaves dirty segments, which are recovered one by one. The version of the settings is
 * incremented as well, so that orders decided before are refused once; that is how the other
 * processes learn the new total. */
#include "stock/sales/sales.h"

#include <assert.h>

#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "stock/sales/lock.h"

struct adding {
    struct sale_change change;
    uint32_t units;
};

/* Looks for a restock made under the key. False: there is none, no key, or no sale any more. */
static bool find_key(struct stock *stock, const struct adding *adding,
                     enum stock_admin_result *result_out)
{
    const struct sale_change *change = &adding->change;
    uint32_t units = 0, round = 0;
    *result_out = STOCK_ADMIN_FAILED;
    if (change->key[0] == '\0')
        return false;
    enum ledger_result found =
        ledger_restock_find(stock->ledger, change->sku, change->key, &units, &round);
    if (found != LEDGER_OK)
        return found != LEDGER_NO;
    /* The restock may be visible and not on disk yet, and so may the sale's present row. */
    uint64_t connection = ledger_connection(stock->ledger);
    found = ledger_sale_find(stock->ledger, change->sku, change->sale);
    if ((found != LEDGER_OK && found != LEDGER_NO) ||
        ledger_confirm(stock->ledger, connection) != LEDGER_OK)
        return true;
    *result_out = units != adding->units         ? STOCK_ADMIN_KEY_REUSED
                  : round == change->sale->round ? STOCK_ADMIN_OK
                                                 : STOCK_ADMIN_KEY_OVER;
    return found == LEDGER_OK;
}

/* Adds the units in one transaction under the locks, and releases them. */
static enum stock_admin_result add_locked(struct stock *stock, struct adding *adding,
                                          struct sale_lock *locked)
{
    struct sale_change *change = &adding->change;
    uint64_t fences[LEDGER_SEGMENTS_MAX];
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    struct ledger_restock restock = {.sku = change->sku,
                                     .key = change->key,
                                     .units = adding->units,
                                     .total_max = STOCK_TOTAL_MAX,
                                     .fences = fences,
                                     .fence_count = locked->count};
    enum ledger_result result = LEDGER_FAILED;
    if (sale_lock_mark(stock, locked, fences))
        result = ledger_restock(stock->ledger, &restock, change->sale, rows);
    sale_lock_end(stock, locked, result, change->sale, rows);
    return restock.too_many ? STOCK_ADMIN_TOO_MANY : sale_change_result(change, result);
}

static enum stock_admin_result try_once(struct stock *stock, struct sale_change *change,
                                        struct sale_lock *locked)
{
    struct adding *adding = (struct adding *)change;
    assert(adding->units > 0);
    enum stock_admin_result result;
    if (find_key(stock, adding, &result)) {
        if (result == STOCK_ADMIN_OK) /* the process that added them may have died before */
            sale_publish(stock, change->sale);
        return result;
    }
    result = sale_lock_acquire(stock, change->sku, change->wait_ms, locked);
    return result == STOCK_ADMIN_OK ? add_locked(stock, adding, locked) : result;
}

enum stock_admin_result stock_restock(struct stock *stock, const char *sku, uint32_t units,
                                      const char *key, int wait_ms, struct ledger_sale *sale_out)
{
    assert(units > 0 && units <= STOCK_TOTAL_MAX);
    struct adding adding = {.change = {sku, key, wait_ms, sale_out, try_once, false},
                            .units = units};
    return sale_change_run(stock, &adding.change);
}
