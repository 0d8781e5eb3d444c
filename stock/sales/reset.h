/* A sale's next round, or its first. */
#ifndef STOCK_SALES_RESET_H
#define STOCK_SALES_RESET_H

#include "sql/sales/ledger_round_orders.h"
#include "sql/sales/ledger_sale.h"
#include "stock/sales/settings.h"
#include "stock/types.h"

struct stock_reset {
    const char *sku;
    uint32_t total;
    uint32_t segments; /* 1..LEDGER_SEGMENTS_MAX, <= total */
    struct stock_change
        change;      /* settings of the next round; those it leaves out stay as they are */
    const char *key; /* idempotency key; NULL or "" for none */
    bool only_if;    /* only if the sale is in the round `if_round`; 0: does not exist */
    uint32_t if_round;
    int64_t now_ms; /* the ledger's time, UTC since 1970 */
    bool end_round; /* although orders of the present round hold units: ends the reserved ones */
};

/* Begins the next round of a sale, or its first, holding all of its segments' locks, and publishes
 * it to every process. Waits up to `wait_ms` for the locks. With a key, what was done under it is
 * not done again, and an unclear outcome is asked after.
 *
 * `ended_out` counts the orders of ended rounds that this call has expired; stock_round_end does
 * the rest.
 *
 * STOCK_ADMIN_OK: `sale_out` is the sale in its new round; of a repeat, the sale as it is now if
 * that round still is the present one, else as the reset left it. STOCK_ADMIN_KEY_REUSED: another
 * reset was made under the key. STOCK_ADMIN_OTHER_ROUND: `sale_out->round` is not the one expected.
 * STOCK_ADMIN_ROUND_IN_USE: `use_out` tells which orders of the round `sale_out->round` hold units.
 * STOCK_ADMIN_ENDED: the sale's end, which stays, has passed already. */
enum stock_admin_result stock_reset(struct stock *stock, const struct stock_reset *reset,
                                    int wait_ms, struct ledger_sale *sale_out,
                                    struct ledger_round_use *use_out, uint64_t *ended_out);

#endif
