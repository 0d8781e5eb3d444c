/* Units added to a running sale, and its segments evened out. */
#ifndef STOCK_SALES_RESTOCK_H
#define STOCK_SALES_RESTOCK_H

#include "sql/sales/ledger_sale.h"
#include "stock/types.h"

enum { STOCK_TOTAL_MAX = 10000000 }; /* units of one sale */

enum stock_restock_result {
    STOCK_RESTOCK_DONE,       /* the units are there, since this call or one before with its key */
    STOCK_RESTOCK_TOO_MANY,   /* the sale would have more than STOCK_TOTAL_MAX: nothing is done */
    STOCK_RESTOCK_KEY_OVER,   /* the key was used in an earlier round: nothing is done */
    STOCK_RESTOCK_KEY_REUSED, /* other units were added under the key: nothing is done */
    STOCK_RESTOCK_NOT_DONE,   /* or in doubt: see the other result */
};

/* Adds `units` >= 1 to a sale, holding all of its segments' locks, so that all segments have the
 * same left, and publishes it to every process. Waits up to `wait_ms` for the locks. `key` is an
 * idempotency key, "" for none: with one, what was done under it is not done again, and an unclear
 * outcome is asked after. On STOCK_RESTOCK_DONE `sale_out` is the sale as it is now; on
 * STOCK_RESTOCK_NOT_DONE `why_out` tells the reason. */
enum stock_restock_result stock_restock(struct stock *stock, const char *sku, uint32_t units,
                                        const char *key, int wait_ms, struct ledger_sale *sale_out,
                                        enum stock_admin_result *why_out);

#endif
