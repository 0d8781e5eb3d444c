/* Whether a sale is open to an order, and by which of its snapshots the order is decided.
 *
 * An order may be let in by whatever snapshot this process has: its stock update names the version
 * of the settings, and the ledger refuses the update when they have changed. A refusal meets no
 * such guard, so orders are refused only by settings that the ledger confirmed lately, and that no
 * message has invalidated since. */
#ifndef STOCK_ORDERS_CHECK_SETTINGS_H
#define STOCK_ORDERS_CHECK_SETTINGS_H

#include "stock/order.h"
#include "stock/stock_core.h"

/* The snapshots of the sales in a batch: one per sale, for all of its orders. */
struct settings_book;

struct settings_book *settings_book_open(void);
void settings_book_close(struct settings_book **book);

/* Begins a batch: sets each order's `sale` and `snapshot`, and decides an order that has no sale,
 * or that comes (created_ms) when its sale is not open. Asks the ledger only for sales that the
 * cache does not have, all at once, or to confirm settings before they refuse an order. */
void settings_begin(struct stock *stock, struct stock_order *const *orders, size_t count);

/* Decides an order: with `outcome`, a refusal, if the ledger confirms the settings it is refused
 * by; STOCK_AGAIN if they are others by now, STOCK_UNAVAILABLE if the ledger cannot be asked. */
void settings_refuse(struct stock *stock, struct stock_order *order, enum stock_outcome outcome);

/* Comes before keyed orders are refused because their sale has ended, and before their keys are
 * looked up for the last time: an order that was let in before the end, perhaps the first try of
 * one of them, is in the ledger by then or never will be. Costs a change of the settings' version
 * once per sale's end and process. Orders whose sale changed meanwhile are to be tried again
 * (STOCK_AGAIN); where the ledger cannot be asked they are STOCK_UNAVAILABLE. */
void settings_fence_ended(struct stock *stock, struct stock_order *const *orders, size_t count);

#endif
