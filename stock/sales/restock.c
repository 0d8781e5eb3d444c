/* Units added to a running sale, and its segments evened out.
 *
 * As at a reset all segments are locked and marked open, one transaction changes them and raises
 * their fences to those of the locks, and Redis is loaded from the ledger: dying in between leaves
 * segments that are dirty and recovered one by one. The version of the settings counts on as well,
 * so orders that were decided before are refused once; that is how the other processes hear of the
 * new total. */
#include "stock/sales/restock.h"

#include <assert.h>
#include <stdlib.h>

#include "sql/orders/ledger_confirm.h"
#include "sql/sales/ledger_restock.h"
#include "sql/ledger_segment.h"
#include "stock/sales/lock.h"

enum { TRIES_MAX = 5 }; /* resets that came in between, or commits that were not answered */

struct adding {
    const char *sku;
    const char *key;
    uint32_t units;
    int wait_ms;
    struct ledger_sale *sale_out;
};

/* Looks for what was done under the key. LEDGER_NO: nothing, or there is no key. */
static enum ledger_result find_key(struct stock *stock, const struct adding *adding,
                                   enum stock_restock_result *result_out)
{
    uint32_t units = 0, round = 0;
    if (adding->key[0] == '\0')
        return LEDGER_NO;
    enum ledger_result found =
        ledger_restock_find(stock->ledger, adding->sku, adding->key, &units, &round);
    if (found != LEDGER_OK)
        return found;
    /* The first may be visible and not on the disk yet, as may what the sale is now. */
    uint64_t connection = ledger_connection(stock->ledger);
    found = ledger_sale_find(stock->ledger, adding->sku, adding->sale_out);
    if ((found != LEDGER_OK && found != LEDGER_NO) ||
        ledger_confirm(stock->ledger, connection) != LEDGER_OK)
        return LEDGER_FAILED;
    bool present = found == LEDGER_OK && round == adding->sale_out->round;
    *result_out = units != adding->units ? STOCK_RESTOCK_KEY_REUSED
                  : present              ? STOCK_RESTOCK_DONE
                                         : STOCK_RESTOCK_KEY_OVER;
    return found;
}

/* Adds the units in one transaction under the locks, and releases them. */
static enum ledger_result add_locked(struct stock *stock, const struct adding *adding,
                                     struct sale_lock *locked, bool *too_many_out)
{
    uint64_t fences[LEDGER_SEGMENTS_MAX];
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    *too_many_out = false;
    if (!sale_lock_mark(stock, locked)) {
        sale_lock_release(stock, locked);
        return LEDGER_FAILED;
    }
    sale_lock_fences(locked, fences);
    struct ledger_restock restock = {.sku = adding->sku,
                                     .key = adding->key,
                                     .units = adding->units,
                                     .total_max = STOCK_TOTAL_MAX,
                                     .fences = fences,
                                     .fence_count = locked->count};
    enum ledger_result result = ledger_restock(stock->ledger, &restock, adding->sale_out, rows);
    *too_many_out = restock.too_many;
    if (result == LEDGER_OK)
        sale_lock_post_round(stock, locked, adding->sale_out, rows);
    else if (result != LEDGER_UNKNOWN)
        sale_lock_post_unmark(stock, locked);
    sale_lock_release(stock, locked);
    if (result == LEDGER_OK)
        sale_publish(stock, adding->sale_out);
    return result;
}

/* Tries once. `again_out` tells that another try will find out more: a reset came in between, or
 * the outcome is unknown and the key tells. */
static enum stock_restock_result try_once(struct stock *stock, const struct adding *adding,
                                          struct sale_lock *locked,
                                          enum stock_admin_result *why_out, bool *again_out)
{
    enum stock_restock_result done = STOCK_RESTOCK_NOT_DONE;
    bool too_many = false;
    enum ledger_result result = find_key(stock, adding, &done);
    *again_out = false;
    if (result == LEDGER_OK && done == STOCK_RESTOCK_DONE)
        sale_publish(stock,
                     adding->sale_out); /* the process that added them may have died before */
    if (result == LEDGER_OK)
        return done;
    *why_out = STOCK_ADMIN_FAILED;
    if (result != LEDGER_NO)
        return STOCK_RESTOCK_NOT_DONE;
    *why_out = sale_lock_acquire(stock, adding->sku, adding->wait_ms, locked);
    if (*why_out != STOCK_ADMIN_OK)
        return STOCK_RESTOCK_NOT_DONE;
    result = add_locked(stock, adding, locked, &too_many);
    if (result == LEDGER_OK)
        return STOCK_RESTOCK_DONE;
    if (too_many)
        return STOCK_RESTOCK_TOO_MANY;
    bool unknown = result == LEDGER_UNKNOWN;
    bool overtaken = result == LEDGER_NO || result == LEDGER_DUPLICATE;
    *why_out = unknown ? STOCK_ADMIN_IN_DOUBT : overtaken ? STOCK_ADMIN_BUSY : STOCK_ADMIN_FAILED;
    *again_out = overtaken || (unknown && adding->key[0] != '\0');
    return STOCK_RESTOCK_NOT_DONE;
}

enum stock_restock_result stock_restock(struct stock *stock, const char *sku, uint32_t units,
                                        const char *key, int wait_ms, struct ledger_sale *sale_out,
                                        enum stock_admin_result *why_out)
{
    const struct adding adding = {sku, key, units, wait_ms, sale_out};
    enum stock_restock_result result = STOCK_RESTOCK_NOT_DONE;
    struct sale_lock *locked = malloc(sizeof *locked);
    bool doubt = false, again = true;
    if (!locked)
        abort();
    assert(units > 0 && units <= STOCK_TOTAL_MAX);
    stock_revalidate(stock);
    for (int tries = 0; tries < TRIES_MAX && again; tries++) {
        result = try_once(stock, &adding, locked, why_out, &again);
        doubt |= result == STOCK_RESTOCK_NOT_DONE && *why_out == STOCK_ADMIN_IN_DOUBT;
    }
    if (result == STOCK_RESTOCK_KEY_OVER && doubt) /* by this call, before the round ended */
        result = STOCK_RESTOCK_DONE;
    if (result == STOCK_RESTOCK_NOT_DONE && doubt)
        *why_out = STOCK_ADMIN_IN_DOUBT;
    free(locked);
    return result;
}
