/* Finishing what a limit set in mid-sale has begun: counting what the sale's users have. */
#ifndef STOCK_SALES_COUNT_H
#define STOCK_SALES_COUNT_H

#include "sql/ledger.h"
#include "stock/types.h"

/* Counts on in a sale, in transactions of about a tenth of a second each, until the sale is open or
 * `until_ns` (monotonic) has come, and publishes the opening. Any number of processes may, and any
 * of them may die. LEDGER_OK: more is to be counted. LEDGER_NO: the sale is not being counted, or
 * no more. LEDGER_FAILED: the ledger cannot be asked. */
enum ledger_result stock_count_sale(struct stock *stock, const char *sku, int64_t until_ns);

/* The same for whatever sales are being counted, one after the other. LEDGER_NO: none is left. */
enum ledger_result stock_count(struct stock *stock, int64_t until_ns);

#endif
