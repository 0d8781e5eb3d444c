/* The end of a sale. */
#ifndef STOCK_SALES_RETIRE_H
#define STOCK_SALES_RETIRE_H

#include "sql/sales/ledger_retire.h"
#include "sql/sales/ledger_sale.h"
#include "stock/types.h"

/* Ends a sale of which no order is reserved, in whatever round, and publishes that to every
 * process: its row, its segments and its keys in Redis go, its orders stay. A later sale of the sku
 * counts its rounds on. Waits up to `wait_ms` for the segments' locks. `sale_out` is the sale as it
 * was. STOCK_ADMIN_IN_USE: orders are reserved, as `held_out` says, which has counted all of them
 * only if it is done. STOCK_ADMIN_COUNTING: half a second did not suffice to count the orders, or
 * those of an earlier round are just being ended; another call goes on. STOCK_ADMIN_BUSY: orders
 * keep coming. */
enum stock_admin_result stock_retire(struct stock *stock, const char *sku, int wait_ms,
                                     struct ledger_sale *sale_out, struct ledger_held *held_out);

#endif
