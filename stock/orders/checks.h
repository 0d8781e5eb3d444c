/* The checks that may refuse an order: the sale's settings, the limit per user, the rate limits; and
 * the look-up of idempotency keys, by which a retry finds its first order. For stock/ alone. */
#ifndef STOCK_ORDERS_CHECKS_H
#define STOCK_ORDERS_CHECKS_H

#include "stock/order.h"
#include "stock/stock_core.h"

/* ---- check_settings.c: is the sale open, and by which of its snapshots is the order decided? ----
 *
 * An order may be let in by whatever snapshot this process has: its stock update names the version
 * of the settings, and the ledger refuses the update when they have changed. A refusal meets no
 * such guard, so orders are refused only by settings that the ledger confirmed lately, and that no
 * message has invalidated since. */

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

/* ---- check_settings.c: may the user have more? ----
 *
 * The ledger enforces the limit per user, in the transaction of the orders, so this check is for
 * speed only: one refused order sends its whole batch back. While no order is refused no user is
 * looked up. */

/* Decides open orders of sales with a limit: STOCK_LIMIT where the ledger says that the user would
 * have too much, STOCK_AGAIN where that is so only together with earlier ones among `orders`.
 * `late`: the ledger has just refused one of them, so it must be asked. At most one query. False
 * when the ledger cannot be asked. */
bool limit_find(struct stock *stock, struct stock_order *const *orders, size_t count, bool late);

/* ---- check_replay.c: was the key accepted before? ----
 *
 * The ledger enforces that a key is used once, by refusing the second order; this finds the first
 * order instead. */

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

/* ---- check_rate.c: how often do the user and the client address order? ---- */

/* Opens the limits of one thread, which follow `rates` for as long as it is open; NULL for NULL.
 * `cluster`: they are kept in a cluster, in several slots. */
struct rate *rate_open(const struct stock_rates *rates, bool cluster);
void rate_close(struct rate **rate);

/* Posts the question for all open orders that were not let through before, if there are any: it
 * travels with what a strategy asks Redis first. The strategy must send it by rate_run, and accept
 * none of the orders before that. */
void rate_post(struct stock *stock, struct stock_order *const *orders, size_t count);

/* As stock_run_calls; if the question was in the pipeline its answer is read: orders over a limit
 * are decided, the others are noted as let through. If Redis is lost nothing is decided; the caller
 * sees that. If Redis refused the question, or the node of a cluster that has it is lost, all its
 * orders fail. */
bool rate_run(struct stock *stock);

/* Sends the question by itself if it still waits in the pipeline: the orders were decided without
 * Redis, and are counted all the same. */
void rate_finish(struct stock *stock);

/* Posts the question and sends it at once, for strategies that do not begin with Redis. If Redis is
 * lost the open orders are unavailable. */
void rate_ask(struct stock *stock, struct stock_order *const *orders, size_t count);

#endif
