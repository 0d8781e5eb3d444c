/* A retry finds its first order: idempotency keys, looked up for a whole batch.
 *
 * The ledger enforces that a key is used once, by refusing the second order; this finds the first
 * order instead. */
#ifndef STOCK_ORDERS_CHECK_REPLAY_H
#define STOCK_ORDERS_CHECK_REPLAY_H

#include "stock/order.h"
#include "stock/stock_core.h"

/* Of the orders with one key only the first goes on with this batch. The others are `deferred` and
 * come again (STOCK_AGAIN), when their key tells what became of the first. Orders that are refused
 * already, as the first is, stay: they need nothing of each other. */
void replay_defer(struct stock_order *const *orders, size_t count);

/* Decides every order, open, refused or deferred, whose key the ledger knows (STOCK_REPLAYED,
 * STOCK_KEY_REUSED). A key that another transaction has written and not committed is seen as well;
 * its order comes again (STOCK_AGAIN). So no order is refused after it whose first try has written
 * its key; and a first try that writes it later is not accepted, if its time was over before
 * (why_last in sql/orders/ledger_commit.h). Costs nothing without keys, and with them one query and one or
 * two more where keys are found. False when the ledger cannot be asked. */
bool replay_find(struct stock *stock, struct stock_order *const *orders, size_t count);

/* The same before the open orders are tried, but only while repeats are to be expected: in the next
 * batches after one. Else it does nothing. */
bool replay_find_expected(struct stock *stock, struct stock_order *const *orders, size_t count);

/* The same for the orders of a commit that the ledger refused for one of their keys: from now on
 * repeats are to be expected. */
bool replay_find_refused(struct stock *stock, struct stock_order *const *orders, size_t count);

/* After a commit of the batch: it has confirmed what was found before it, unless that was on an
 * earlier connection (see ledger_confirm). */
void replay_committed(struct stock *stock);

/* Comes before repeats are answered: what they were answered from is on the disk after it, or they
 * are STOCK_UNAVAILABLE. Costs a commit, unless the batch has committed since its keys were looked
 * up. */
void replay_confirm(struct stock *stock, struct stock_order *const *orders, size_t count);

#endif
