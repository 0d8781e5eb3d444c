/* Units added to a running sale, and its segments evened out.
 *
 * As at a reset all segments are locked and marked open, one transaction changes them and raises
 * their fences to those of the locks, and Redis is loaded from the ledger: dying in between leaves
 * segments that are dirty and recovered one by one. The version of the settings counts on as well,
 * so orders that were decided before are refused once; that is how the other processes learn the
 * new total. */
#include "stock/sales/sales.h"

#include <assert.h>
#include <stdlib.h>

#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "stock/sales/lock.h"

enum { TRIES_MAX = 5 }; /* resets that came in between, or commits that were not answered */

struct adding {
    const char *sku;
    const char *key;
    uint32_t units;
    int wait_ms;
    struct ledger_sale *sale_out;
    bool again; /* another try will find out more: a reset came in between, or the outcome is
                 * unknown and the key tells */
};

/* Looks for what was done under the key. False: nothing, there is no key, or no sale any more. */
static bool find_key(struct stock *stock, const struct adding *adding,
                     enum stock_admin_result *result_out)
{
    uint32_t units = 0, round = 0;
    *result_out = STOCK_ADMIN_FAILED;
    if (adding->key[0] == '\0')
        return false;
    enum ledger_result found =
        ledger_restock_find(stock->ledger, adding->sku, adding->key, &units, &round);
    if (found != LEDGER_OK)
        return found != LEDGER_NO;
    /* The first may be visible and not on the disk yet, as may what the sale is now. */
    uint64_t connection = ledger_connection(stock->ledger);
    found = ledger_sale_find(stock->ledger, adding->sku, adding->sale_out);
    if ((found != LEDGER_OK && found != LEDGER_NO) ||
        ledger_confirm(stock->ledger, connection) != LEDGER_OK)
        return true;
    *result_out = units != adding->units             ? STOCK_ADMIN_KEY_REUSED
                  : round == adding->sale_out->round ? STOCK_ADMIN_OK
                                                     : STOCK_ADMIN_KEY_OVER;
    return found == LEDGER_OK;
}

/* Adds the units in one transaction under the locks, and releases them. */
static enum stock_admin_result add_locked(struct stock *stock, struct adding *adding,
                                          struct sale_lock *locked)
{
    uint64_t fences[LEDGER_SEGMENTS_MAX];
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    struct ledger_restock restock = {.sku = adding->sku,
                                     .key = adding->key,
                                     .units = adding->units,
                                     .total_max = STOCK_TOTAL_MAX,
                                     .fences = fences,
                                     .fence_count = locked->count};
    enum ledger_result result = LEDGER_FAILED;
    if (sale_lock_mark(stock, locked, fences))
        result = ledger_restock(stock->ledger, &restock, adding->sale_out, rows);
    sale_lock_end(stock, locked, result, adding->sale_out, rows);
    bool unknown = result == LEDGER_UNKNOWN;
    bool overtaken = result == LEDGER_NO || result == LEDGER_DUPLICATE;
    if (restock.too_many)
        return STOCK_ADMIN_TOO_MANY;
    adding->again = overtaken || (unknown && adding->key[0] != '\0');
    return result == LEDGER_OK ? STOCK_ADMIN_OK
           : unknown           ? STOCK_ADMIN_IN_DOUBT
           : overtaken         ? STOCK_ADMIN_BUSY
                               : STOCK_ADMIN_FAILED;
}

static enum stock_admin_result try_once(struct stock *stock, struct adding *adding,
                                        struct sale_lock *locked)
{
    assert(adding->units > 0);
    enum stock_admin_result result;
    adding->again = false;
    if (find_key(stock, adding, &result)) {
        if (result == STOCK_ADMIN_OK) /* the process that added them may have died before */
            sale_publish(stock, adding->sale_out);
        return result;
    }
    result = sale_lock_acquire(stock, adding->sku, adding->wait_ms, locked);
    return result == STOCK_ADMIN_OK ? add_locked(stock, adding, locked) : result;
}

enum stock_admin_result stock_restock(struct stock *stock, const char *sku, uint32_t units,
                                      const char *key, int wait_ms, struct ledger_sale *sale_out)
{
    struct adding adding = {sku, key, units, wait_ms, sale_out, true};
    enum stock_admin_result result = STOCK_ADMIN_BUSY;
    struct sale_lock *locked = malloc(sizeof *locked);
    bool doubt = false;
    if (!locked)
        abort();
    assert(units > 0 && units <= STOCK_TOTAL_MAX);
    stock_revalidate(stock);
    for (int tries = 0; tries < TRIES_MAX && adding.again; tries++) {
        result = try_once(stock, &adding, locked);
        doubt |= result == STOCK_ADMIN_IN_DOUBT;
    }
    free(locked);
    if (!doubt)
        return result;
    /* By this call, before the round ended; or its key, or a commit that others see, tells. */
    if (result == STOCK_ADMIN_KEY_OVER)
        return STOCK_ADMIN_OK;
    bool certain = result == STOCK_ADMIN_OK || result == STOCK_ADMIN_KEY_REUSED ||
                   result == STOCK_ADMIN_TOO_MANY;
    return certain ? result : STOCK_ADMIN_IN_DOUBT;
}
