/* Rows of the ledger that another transaction holds, such as one of an operator or of a program
 * that stands still: waited for once, and for a short time, and then looked for before.
 *
 * why_look: a worker that waits for one sale's row keeps the orders of all sales waiting. So a row
 * is waited for LEDGER_ROW_WAIT_S at most, and not again: for some seconds after it all threads of
 * the process look which rows are held before they change any, and leave those orders out. */
#ifndef STOCK_ORDERS_HELD_ROWS_H
#define STOCK_ORDERS_HELD_ROWS_H

#include "stock/orders/batch.h"

/* True while rows may be held. Costs nothing else. */
bool held_rows_expected(const struct stock *stock);

/* To be called after each call of the ledger that may wait for rows of a sale (NULL: of which is
 * not known). True when it failed because it met a held row; from now on such rows are expected. */
bool held_rows_met(struct stock *stock, const char *sku);

/* Leaves the filled orders out of the batch that need rows which others hold: of their segments and
 * of their users' quotas. batch_write has listed the segments. True when there were any. */
bool held_rows_drop(struct stock *stock, struct batch *batch);

/* True when others hold the sale's row, or those of its segments. */
bool held_rows_of_sale(struct stock *stock, struct sale *sale);

/* Sorts out the holds whose segments' rows are held: they come first in `holds`. Returns how many
 * they are. */
size_t held_rows_first(struct stock *stock, struct segment_hold **holds, size_t count);

#endif
