/* The orders of a round: who holds units of the present one, and the end of those of earlier
 * ones. */
#ifndef STOCK_SALES_ROUND_H
#define STOCK_SALES_ROUND_H

#include "sql/sales/ledger_round_orders.h"
#include "sql/sales/ledger_sale.h"
#include "stock/types.h"

/* Counts the orders that hold the units sold in the sale's round, without any lock, until all of
 * these units are found or the time is over: then there are more. False when the ledger cannot be
 * asked. */
bool stock_round_use(struct stock *stock, const struct ledger_sale *sale, int64_t until_ns,
                     struct ledger_round_use *use_out);

/* Ends reserved orders of rounds that resets have ended, until none is left or the time is over;
 * adds their number to `ended`. LEDGER_OK: go on later. LEDGER_NO: none is left. LEDGER_FAILED.
 * Nobody can pay such an order meanwhile, and its units no longer exist. */
enum ledger_result stock_round_end(struct stock *stock, int64_t until_ns, uint64_t *ended);

#endif
