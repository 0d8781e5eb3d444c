/* A sale's next round, or its first. */
#ifndef STOCK_SALE_RESET_H
#define STOCK_SALE_RESET_H

#include "sql/ledger_sale.h"
#include "stock/types.h"

/* Begins the next round of a sale, or its first, holding all of its segments' locks, and publishes
 * it to every process. `sale` has its sku, total, segments and settings, and gets the rest. Waits
 * up to `wait_ms` for the locks. 1 <= segments <= LEDGER_SEGMENTS_MAX, <= total. */
enum stock_admin_result stock_reset(struct stock *stock, struct ledger_sale *sale, int wait_ms);

#endif
