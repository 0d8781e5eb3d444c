/* The parts that decide a batch of orders, for stock/ alone: the batch, the checks that may refuse
 * an order, strategies and their common steps, rows and locks held by others. */
#ifndef STOCK_ORDERS_ORDERS_H
#define STOCK_ORDERS_ORDERS_H

#include "sql/orders/orders.h"
#include "sql/ledger/ledger.h"
#include "stock/segment.h"
#include "stock/stock.h"

/* ---- batch.c: a batch being decided: its orders by sale, and the segments that fill them ---- */

/* One open order of the batch. */
struct batch_order {
    struct stock_order *order;
    struct batch_order *next;  /* of the same group */
    bool filled;               /* its units have been taken */
    struct segment_hold *hold; /* set by strategy_commit: the first hold that gives it units */
};

/* The ledger's answer to whether a snapshot is still right. */
enum standing { NOT_ASKED, CONFIRMED, CHANGED, SILENT };

/* The open orders of one sale, all decided by one snapshot of it. Segments are tried in turn from a
 * random one on; recovered segments are tried once more. */
struct group {
    struct sale *sale;
    struct sale_snapshot snapshot; /* its stock updates name these settings */
    enum standing standing;        /* of the snapshot; see check_settings.c */
    struct batch_order *first;     /* NULL: no order is open */
    struct batch_order *last;
    struct segment_hold *first_hold; /* of its holds, in the order they were begun */
    struct segment_hold *last_hold;
    uint32_t start;
    uint32_t tried;
    uint32_t retries;
    uint16_t retry[LEDGER_SEGMENTS_MAX];
    uint32_t retry_count;
    uint32_t leftover; /* units taken and not yet given to an order */
    bool busy;         /* another holder had a segment */
    bool stale;        /* the ledger is in another round */
    bool held;         /* others hold rows of the ledger that it needs */
};

enum {
    BATCH_SLOTS = 2 * STOCK_BATCH_MAX, /* of the table of groups: a power of two */
};

_Static_assert((BATCH_SLOTS & (BATCH_SLOTS - 1)) == 0,
               "the table of groups has a power of two slots");
_Static_assert(STOCK_BATCH_MAX <= UINT16_MAX, "a slot numbers a group in 16 bits");
_Static_assert(LEDGER_SEGMENTS_MAX <= UINT16_MAX, "a retry numbers a segment in 16 bits");
_Static_assert((int)STOCK_BATCH_MAX <= (int)LEDGER_ORDERS_MAX, "one commit takes a whole batch");

struct batch {
    struct batch_order orders[STOCK_BATCH_MAX];
    size_t order_count;
    struct group groups[STOCK_BATCH_MAX];
    size_t group_count;
    uint16_t group_slots[BATCH_SLOTS]; /* a sale's group number, from 1; 0: free */

    /* Written by strategy_commit for the ledger. */
    struct ledger_stock_update updates[STOCK_HOLDS_MAX];
    struct segment_hold *updated[STOCK_HOLDS_MAX]; /* the hold behind each update */
    size_t update_count;
    struct ledger_order rows[STOCK_BATCH_MAX];
    size_t row_count;
};

/* Forgets the sales of the last batch. */
void batch_clear(struct stock *stock);

/* Returns the sale's group, or makes one from the cache's present snapshot. */
struct group *batch_group(struct stock *stock, struct sale *sale);

/* Begins the thread's batch, without holds: puts the open orders into their groups. */
struct batch *batch_begin(struct stock *stock, struct stock_order *const *orders, size_t count);

/* Begins a hold of up to `wanted` units of a segment, in the strategy's own way. */
typedef void begin_hold(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                        const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted);

/* Begins holds of enough further segments for the group's open orders, judging by the hints. */
void group_plan(struct stock *stock, struct group *group, begin_hold *begin);

/* Lets a segment be tried once more, a bounded number of times. */
void group_retry(struct group *group, uint32_t segment);

/* Gives taken units to open orders, all or nothing. */
void group_fill(struct group *group);

/* Takes its units, if any, away from an order that cannot be committed now. It is tried again, a
 * bounded number of times, if the failed server is `reachable` by now; else it is unavailable. */
void batch_order_fail(struct batch_order *entry, bool reachable);

/* Fails filled orders until the rest fit in the units of the holds that are not withheld. */
void batch_fit(struct batch *batch);

/* True when an order of the group is neither filled nor decided. */
bool group_open(const struct group *group);

/* Returns the greatest number of passes that an open order of the group has made. */
int group_passes(const struct group *group);

/* Decides the group's open orders: sold out if an order wants more than `left`, else `outcome`. */
void group_decide(struct group *group, enum stock_outcome outcome, uint32_t left);

/* Fails the group's open orders. */
void group_fail(struct group *group, bool reachable);

/* Counts the filled orders, and lists them when asked to. */
size_t batch_filled(const struct batch *batch, struct stock_order **orders_out);

/* Fails all orders that are not decided, filled or not, when Redis was lost. */
void batch_lost(struct stock *stock, struct batch *batch);

/* ---- check_settings.c: is the sale open, and which snapshot of it decides the order? ----
 *
  * Any snapshot may let an order in: its stock update names the version of the settings, and the
  * ledger refuses the update when they have changed. A refusal has no such guard, so orders are
  * refused only by settings that the ledger confirmed lately and no message invalidated since. */

/* Begins a batch: sets each order's group, and decides an order that has no sale, or whose sale is
 * not open at its created_ms. Asks the ledger, once for all, only for sales that are not cached, or
 * to confirm settings before they refuse an order. */
void settings_begin(struct stock *stock, struct stock_order *const *orders, size_t count);

/* Refuses an order with `outcome` if the ledger confirms the settings that refuse it; else decides
 * STOCK_AGAIN if they have changed, STOCK_UNAVAILABLE if the ledger cannot be asked. */
void settings_refuse(struct stock *stock, struct stock_order *order, enum stock_outcome outcome);

/* Call it before keyed orders are refused because their sale has ended, and before their keys are
 * looked up for the last time: afterwards an order that was let in before the end, perhaps the
 * first try of one of them, is in the ledger or never will be. Increments the settings' version
 * once per sale's end and process. Orders whose sale changed meanwhile become STOCK_AGAIN; if the
 * ledger cannot be asked, they become STOCK_UNAVAILABLE. */
void settings_fence_ended(struct stock *stock, struct stock_order *const *orders, size_t count);

/* ---- check_settings.c: may the user have more? ----
 *
 * The ledger enforces the limit per user in the transaction of the orders; this check is for speed
 * only, because one refused order sends its whole batch back. It looks up no user until an order
 * is refused. */

/* Decides open orders of sales with a limit: STOCK_LIMIT if the user would have too much by the
 * ledger, STOCK_AGAIN if so only with earlier ones among `orders`. `late`: the ledger has just
 * refused one: ask it. At most one query. False when the ledger cannot be asked. */
bool limit_find(struct stock *stock, struct stock_order *const *orders, size_t count, bool late);

/* ---- check_replay.c: was the key accepted before? ----
 *
 * The ledger enforces that a key is used once, by refusing the second order; this check finds the
 * first order instead. */

/* Lets only the first of the orders with one key go on with this batch. The others are `deferred`
 * and tried again (STOCK_AGAIN), when their key tells what became of the first. Orders that are
 * refused already, like the first, stay: they need nothing of each other. */
void replay_defer(struct stock_order *const *orders, size_t count);

/* Decides every order, open, refused or deferred, whose key the ledger knows (STOCK_REPLAYED,
 * STOCK_KEY_REUSED). An order whose key is written but not committed comes again (STOCK_AGAIN). So
 * no order is refused after this call whose first try has written its key; and a first try that
 * writes it later is not accepted, if its time was over before (why_last in sql/orders/orders.h).
 * Costs nothing without keys, one query with keys, and one or two more if keys are found. False
 * when the ledger cannot be asked. */
bool replay_find(struct stock *stock, struct stock_order *const *orders, size_t count);

/* Does as replay_find before the open orders are tried, but only while repeats are expected, in the
 * batches after one; else does nothing. */
bool replay_find_expected(struct stock *stock, struct stock_order *const *orders, size_t count);

/* Does as replay_find for the orders of a commit that the ledger refused for one of their keys;
 * from now on repeats are expected. */
bool replay_find_refused(struct stock *stock, struct stock_order *const *orders, size_t count);

/* Call it after a commit of the batch, which confirms what was found before it on the same
 * connection (ledger_confirm). */
void replay_committed(struct stock *stock);

/* Call it before repeats are answered: makes durable what they were answered from, or else they
 * become STOCK_UNAVAILABLE. Costs a commit, unless the batch committed after the look-up. */
void replay_confirm(struct stock *stock, struct stock_order *const *orders, size_t count);

/* ---- check_rate.c: how often do the user and the client address order? ---- */

/* Opens the limits of one thread, which follow `rates` as long as it is open; NULL for NULL.
 * `cluster`: a cluster keeps them, in several slots. */
struct rate *rate_open(const struct stock_rates *rates, bool cluster);
void rate_close(struct rate **rate);

/* Posts the question for all open orders that were not let through before, if any; it travels with
 * the strategy's first calls of Redis. */
void rate_post(struct stock *stock, struct stock_order *const *orders, size_t count);

/* Reads the answer after the pipeline was sent, if the question was in it: decides orders over a
 * limit and notes the others as let through. If Redis is lost nothing is decided; the caller sees
 * that. If Redis refused the question, or its cluster node is lost, all its orders fail. */
void rate_read(struct stock *stock);

/* Sends the question by itself if it still waits in the pipeline. If Redis is lost, the open orders
 * become unavailable. */
void rate_finish(struct stock *stock, struct stock_order *const *orders, size_t count);

/* ---- strategy.c: the interface of a strategy, and the steps that strategies have in common ----
 *
 * A new strategy is a file strategies/NAME.c with a table of this kind, its declaration below, and
 * a line in sell.c. The shortest one to read first is strategies/ledger.c. */

/* A way of deciding a batch; sell.c lists them all. `sell` decides each open order of the `count`
 * given. The question for the rate limits is posted before, and answered with its first calls of
 * Redis; a strategy that does not begin with Redis `asks_rates_first`. */
struct stock_strategy {
    const char *name;
    enum ledger_guard guard; /* of its updates in the ledger */
    size_t batch_max;        /* orders that one call should carry */
    bool asks_rates_first;
    void (*sell)(struct stock *stock, struct stock_order *const *orders, size_t count);
};

extern const struct stock_strategy strategy_segment_lock;
extern const struct stock_strategy strategy_single_lock, strategy_atomic, strategy_optimistic,
    strategy_database; /* for comparison */

/* Sets the group's dirty holds from `first_hold` on again from the ledger, and lets their segments
 * be tried once more. */
void strategy_recover(struct stock *stock, struct group *group, size_t first_hold);

/* Carries out the holds begun from `first_hold` on. False when Redis is lost. */
typedef bool take_holds(struct stock *stock, size_t first_hold);

/* Ends the group's holds from `first_hold` on that gave no units, and recovers the dirty ones.
 * False when Redis is lost. */
typedef bool end_take_of(struct stock *stock, struct group *group, size_t first_hold);

/* Takes units until every order is filled or every segment has been tried. Each pass takes for all
 * sales of the batch together. False as soon as one of the functions returns false. */
bool strategy_take(struct stock *stock, struct batch *batch, begin_hold *post, take_holds *take,
                   end_take_of *end);

/* Commits the filled orders and the updates of their segments, with the strategy's guard, in one
 * transaction, and decides the orders by its result. Drops orders whose time is over, whose keys
 * others have written meanwhile, whose users have enough by now, or whose rows are held. Asks for
 * up to resolve_ms what became of a commit that was not answered. Results as ledger_commit;
 * LEDGER_NO also when no order is filled; LEDGER_UNKNOWN: the ledger did not tell in time. */
enum ledger_result strategy_commit(struct stock *stock, struct batch *batch);

/* Reads the group's segments from the ledger; room for LEDGER_SEGMENTS_MAX. False, with its open
 * orders decided, when the ledger cannot be asked or is in another round. */
bool strategy_fetch(struct stock *stock, struct group *group, struct ledger_segment *rows_out,
                    size_t *count_out);

/* Remembers that the ledger has `left` units, and decides the group's open orders: sold out or to
 * be tried again. */
void strategy_remember_left(struct stock *stock, struct group *group, uint32_t left);

/* Asks the ledger for the units left, and decides the group's open orders: sold out, or to be tried
 * again in segments where this process saw no units. */
void strategy_conclude(struct stock *stock, struct group *group);

/* ---- guard_lock.c: a lock of another kind (RedLock, MySQL, ZooKeeper) around the one in Redis
 * ---- */

/* Opens the client of the lock that the options name; does nothing for "redis". False with the
 * reason in `error_out`. */
bool guard_lock_open(struct stock *stock, char *error_out, size_t error_size);
void guard_lock_close(struct stock *stock);

/* Takes the guard lock, then does as segment_post_take. A segment whose guard lock is held
 * elsewhere is busy at once. After one could not be asked for, the batch asks for no more. */
void guard_lock_post_take(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                          const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted);

/* True when a guard lock of the present batch could not be asked for. */
bool guard_lock_failed(const struct stock *stock);

/* Ends the batch: sends the posted calls, which settle and release the segments, and then releases
 * their guard locks. */
void guard_lock_end(struct stock *stock);

/* ---- held_rows.c: rows of the ledger that another transaction holds ----
 *
 * The holder may be an operator's transaction, or a program that stands still.
 *
 * why_look: a worker that waits for one sale's row keeps the orders of all sales waiting. So a row
 * is waited for once, for LEDGER_ROW_WAIT_S at most: for some seconds afterwards all threads of the
 * process look which rows are held before they change any, and leave those orders out. */

/* True while rows may be held. Does nothing else. */
bool held_rows_expected(const struct stock *stock);

/* Call it after each call of the ledger that may wait for rows of a sale (NULL: not known which).
 * True when that call failed because it met a held row; from now on held rows are expected. */
bool held_rows_met(struct stock *stock, const char *sku);

/* Removes from the batch the filled orders that need held rows, of segments or of users' quotas;
 * the updates list the segments. True when any was removed. */
bool held_rows_drop(struct stock *stock, struct batch *batch);

/* True when other transactions hold the sale's row, or a row of its segments. */
bool held_rows_of_sale(struct stock *stock, struct sale *sale);

/* Puts the holds whose segments' rows are held first in `holds`. Returns their number. */
size_t held_rows_first(struct stock *stock, struct segment_hold **holds, size_t count);

#endif
