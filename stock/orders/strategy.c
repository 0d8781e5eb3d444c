/* Implements the steps that strategies have in common: recover, commit, conclude. */
#include "stock/orders/orders.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "sql/ledger/ledger.h"
#include "sql/orders/orders.h"

enum {
    COMMIT_TRIES_MAX = 3, /* with orders that keep the others from being committed */
    RESOLVE_PAUSE_MS = 20,
};

void strategy_recover(struct stock *stock, struct group *group, size_t first_hold)
{
    struct segment_hold *dirty[STOCK_HOLDS_MAX];
    size_t count = 0;
    assert(first_hold <= stock->hold_count);
    for (struct segment_hold *hold = group->first_hold; hold; hold = hold->group_next)
        if (hold >= &stock->holds[first_hold] && hold->state == SEGMENT_DIRTY)
            dirty[count++] = hold;
    if (count == 0)
        return;
    bool stale = false;
    size_t held = held_rows_expected(stock) ? held_rows_first(stock, dirty, count) : 0;
    for (size_t i = 0; i < held; i++)
        segment_post_release(stock, dirty[i]);
    group->held |= held > 0;
    if (held == count)
        return;
    if (!recovery_run(stock, dirty + held, count - held, &stale)) {
        group->busy = true; /* the ledger could not be asked: they need not be empty */
        if (held_rows_met(stock, sale_sku(group->sale))) {
            group->held = true;
            return;
        }
    }
    group->stale |= stale;
    for (size_t i = held; i < count; i++)
        group_retry(group, dirty[i]->segment);
}

static void count_taken(const struct stock *stock, struct group *group, size_t first_hold)
{
    for (const struct segment_hold *hold = group->first_hold; hold; hold = hold->group_next) {
        if (hold < &stock->holds[first_hold])
            continue;
        assert(hold->state != SEGMENT_POSTED); /* its answer has been read */
        group->busy |= hold->state == SEGMENT_BUSY || hold->state == SEGMENT_DOUBT;
        group->leftover += hold->state == SEGMENT_TAKEN ? hold->taken : 0;
    }
}

bool strategy_take(struct stock *stock, struct batch *batch, begin_hold *post, take_holds *take,
                   end_take_of *end)
{
    for (;;) {
        size_t first_hold = stock->hold_count;
        for (size_t i = 0; i < batch->group_count; i++)
            if (!batch->groups[i].stale)
                group_plan(stock, &batch->groups[i], post);
        if (stock->hold_count == first_hold)
            return true;
        bool alive = take(stock, first_hold);
        for (size_t i = 0; i < batch->group_count && alive; i++) {
            count_taken(stock, &batch->groups[i], first_hold);
            alive = end(stock, &batch->groups[i], first_hold);
            group_fill(&batch->groups[i]);
        }
        if (!alive)
            return false;
    }
}

/* ---- commit ---- */

/* Returns when an order expires unless it is paid; 0: never. */
static int64_t expires_ms(const struct stock_order *order)
{
    int64_t pay_within_s = order->group->snapshot.settings.pay_within_s;
    return pay_within_s == 0 ? 0 : order->created_ms + pay_within_s * 1000;
}

/* Returns the next hold with units that no order has. */
static struct segment_hold *next_spare(struct segment_hold *hold)
{
    while (hold && (hold->state != SEGMENT_TAKEN || hold->withheld || hold->used == hold->taken))
        hold = hold->group_next;
    return hold;
}

/* Uses up one hold after the other, to update as few segments as possible. */
static void share_out(struct group *group)
{
    struct segment_hold *hold = group->first_hold;
    for (; hold; hold = hold->group_next)
        hold->used = 0;
    hold = group->first_hold;
    for (struct batch_order *entry = group->first; entry; entry = entry->next) {
        uint32_t units = entry->filled ? entry->order->qty : 0;
        if (units > 0)
            entry->hold = hold = next_spare(hold);
        while (units > 0) {
            hold = next_spare(hold);
            assert(hold); /* the taken units cover the filled orders */
            uint32_t part = hold->taken - hold->used;
            part = part < units ? part : units;
            hold->used += part;
            units -= part;
        }
    }
}

/* Lists the updates of the holds that have sold units, in the order in which all transactions take
 * the segments' rows. */
static void write_updates(struct stock *stock, struct batch *batch)
{
    batch->update_count = 0;
    for (size_t i = 0; i < stock->hold_count; i++)
        if (stock->holds[i].state == SEGMENT_TAKEN && stock->holds[i].used > 0)
            batch->updated[batch->update_count++] = &stock->holds[i];
    if (batch->update_count > 1)
        qsort(batch->updated, batch->update_count, sizeof batch->updated[0], segment_compare);
    for (size_t i = 0; i < batch->update_count; i++) {
        const struct segment_hold *hold = batch->updated[i];
        assert(hold->used <= hold->taken);
        batch->updates[i] = (struct ledger_stock_update){
            .sku = sale_sku(hold->sale),
            .segment = hold->segment,
            .round = hold->round,
            .units = hold->used,
            .fence = hold->lock.fence,
            .settled = hold->settled,
            .settings_version = hold->settings_version,
            .guard = stock->strategy->guard,
        };
    }
}

/* Shares the filled orders' units out among the holds, and writes the orders and the updates of the
 * segments for the ledger. */
static void write_batch(struct stock *stock, struct batch *batch)
{
    for (size_t i = 0; i < batch->group_count; i++)
        share_out(&batch->groups[i]);
    write_updates(stock, batch);
    batch->row_count = 0;
    for (size_t i = 0; i < batch->order_count; i++) {
        const struct batch_order *entry = &batch->orders[i];
        const struct stock_order *order = entry->order;
        if (!entry->filled)
            continue;
        assert(entry->hold->sale == order->group->sale);
        batch->rows[batch->row_count++] = (struct ledger_order){
            .order_id = order->order_id,
            .sku = order->sku,
            .user_id = order->user_id,
            .key = order->key,
            .round = entry->hold->round,
            .qty = order->qty,
            .segment = entry->hold->segment,
            .created_ms = order->created_ms,
            .limit = order->group->snapshot.settings.per_user_limit,
            .expires_ms = expires_ms(order),
            .grace_s = expires_ms(order) == 0 ? 0 : order->group->snapshot.settings.grace_s,
            .until_ns = order->until_ns,
            .payment_ref = order->payment_ref,
        };
    }
}

/* Asks the ledger what became of a commit whose answer was lost. One update and one order tell for
 * all, because the transaction is atomic. */
static enum ledger_result resolve(struct stock *stock, struct batch *batch)
{
    assert(batch->update_count > 0 && batch->row_count > 0);
    int64_t until_ns = clock_now_ns() + stock->options.resolve_ms * CLOCK_NS_PER_MS;
    stock->stats.unknown_commits++;
    for (;;) {
        enum ledger_result result =
            ledger_resolve(stock->ledger, &batch->updates[0], &batch->rows[0]);
        if (result != LEDGER_FAILED)
            return result;
        if (clock_now_ns() > until_ns)
            return LEDGER_UNKNOWN;
        clock_sleep_ns(RESOLVE_PAUSE_MS * CLOCK_NS_PER_MS);
    }
}

/* Handles the ledger's refusal to commit the filled orders, `why` (LEDGER_DUPLICATE or
 * LEDGER_LIMIT): somebody wrote one of the keys first, or one of the users has enough by now. Finds
 * the orders that caused it, decides them, and takes their units away; the others go on. (An order
 * above its limit may be a repeat; sell.c looks its key up.) False when no such order is found (an
 * order id was taken), or the ledger cannot be asked. */
static bool drop_refused(struct stock *stock, struct batch *batch, enum ledger_result why)
{
    struct stock_order *orders[STOCK_BATCH_MAX];
    size_t count = batch_filled(batch, orders);
    assert(count > 0 && (why == LEDGER_DUPLICATE || why == LEDGER_LIMIT));
    bool found = why == LEDGER_LIMIT ? limit_find(stock, orders, count, true)
                                     : replay_find_refused(stock, orders, count);
    bool dropped = false;
    for (size_t i = 0; i < batch->order_count; i++) {
        if (!batch->orders[i].filled || batch->orders[i].order->outcome == STOCK_OPEN)
            continue;
        batch->orders[i].filled = false;
        dropped = true;
    }
    return found && dropped;
}

static enum ledger_result write_once(struct stock *stock, struct batch *batch)
{
    int64_t start_ns = clock_now_ns();
    for (size_t i = 0; i < batch->order_count; i++) {
        struct batch_order *entry = &batch->orders[i];
        if (!entry->filled || !stock_order_late(entry->order, start_ns))
            continue;
        entry->filled = false;
        entry->order->outcome = STOCK_AGAIN; /* its caller knows that its time is over */
    }
    write_batch(stock, batch);
    if (batch->row_count == 0)
        return LEDGER_NO;
    start_ns = clock_now_ns();
    enum ledger_result result = ledger_commit(stock->ledger, batch->updates, batch->update_count,
                                              batch->rows, batch->row_count);
    stock->stats.ledger_calls++;
    stock->stats.ledger_calls_ns += (uint64_t)(clock_now_ns() - start_ns);
    if (result == LEDGER_NO)
        stock->stats.refusals++;
    return result;
}

static bool drop_held(struct stock *stock, struct batch *batch)
{
    write_batch(stock, batch);
    return held_rows_drop(stock, batch);
}

/* Leaves out the orders that kept the filled ones from being committed. False: no such order. */
static bool drop_some(struct stock *stock, struct batch *batch, enum ledger_result result)
{
    switch (result) {
    case LEDGER_LATE: /* see write_once */
        return true;
    case LEDGER_DUPLICATE:
    case LEDGER_LIMIT:
        return drop_refused(stock, batch, result);
    case LEDGER_FAILED:
        if (!held_rows_met(stock, NULL))
            return false;
        /* The awaited row may also be that of a key. */
        bool keyed = drop_refused(stock, batch, LEDGER_DUPLICATE);
        return drop_held(stock, batch) || keyed;
    default:
        return false;
    }
}

/* Reloads sales whose updates the ledger refused, perhaps for settings or a round that this process
 * does not know yet. */
static void reload_refused(struct stock *stock, const struct batch *batch)
{
    for (size_t i = 0; i < batch->update_count; i++) {
        struct sale *sale = batch->updated[i]->sale;
        bool seen = !batch->updates[i].refused;
        for (size_t j = 0; j < i && !seen; j++)
            seen = batch->updates[j].refused && batch->updated[j]->sale == sale;
        if (!seen)
            stock_sale_reload(stock, sale_sku(sale), &sale);
    }
}

static void accept_order(const struct batch_order *entry)
{
    assert(entry->hold && entry->hold->used > 0); /* its update was committed, too */
    struct stock_order *order = entry->order;
    order->outcome = STOCK_ACCEPTED;
    order->round = entry->hold->round;
    order->segment = entry->hold->segment;
    ledger_time_format(order->created_ms, order->created_at);
    order->expires_at[0] = '\0';
    if (expires_ms(order) != 0)
        ledger_time_format(expires_ms(order), order->expires_at);
}

/* Decides the filled orders by the result of their commit. `in_doubt`: of late payments it is only
 * known that the commit is over. */
static void decide(struct stock *stock, struct batch *batch, enum ledger_result result,
                   bool in_doubt)
{
    bool reachable = result != LEDGER_FAILED || ledger_ping(stock->ledger) == LEDGER_OK;
    for (size_t i = 0; i < batch->order_count; i++) {
        struct batch_order *entry = &batch->orders[i];
        if (!entry->filled)
            continue;
        assert(entry->order->outcome == STOCK_OPEN); /* decided once */
        switch (result) {
        case LEDGER_OK:
            accept_order(entry);
            break;
        case LEDGER_UNKNOWN:
            entry->order->outcome = STOCK_IN_DOUBT;
            break;
        case LEDGER_FAILED: /* certainly not committed */
            batch_order_fail(entry, reachable);
            break;
        default: /* refused by a guard, an id, a key, a limit or as late: nothing written */
            entry->order->outcome = in_doubt ? STOCK_IN_DOUBT : STOCK_AGAIN;
            break;
        }
    }
}

enum ledger_result strategy_commit(struct stock *stock, struct batch *batch)
{
    enum ledger_result result = LEDGER_NO;
    assert(batch == stock->batch);
    if (batch_filled(batch, NULL) == 0)
        return LEDGER_NO;
    for (int tries = 0; tries < COMMIT_TRIES_MAX; tries++) {
        if (held_rows_expected(stock))
            drop_held(stock, batch);
        result = write_once(stock, batch);
        if (!drop_some(stock, batch, result))
            break;
    }
    bool in_doubt = result == LEDGER_UNKNOWN && batch->rows[0].payment_ref;
    if (result == LEDGER_UNKNOWN) {
        result = resolve(stock, batch);
        /* Asking has raised the first segment's fence, so its contents in Redis are out of date; so
         * may be all of them, if it is only known that the commit is over. */
        size_t stale = result != LEDGER_NO          ? 0
                       : batch->rows[0].payment_ref ? batch->update_count
                                                    : 1;
        for (size_t i = 0; i < stale; i++)
            batch->updates[i].refused = true;
    }
    for (size_t i = 0; i < batch->update_count; i++)
        batch->updated[i]->refused = batch->updates[i].refused;
    if (result == LEDGER_OK) /* confirms all that was read before */
        replay_committed(stock);
    else if (result != LEDGER_UNKNOWN && result != LEDGER_FAILED)
        reload_refused(stock, batch);
    decide(stock, batch, result, in_doubt);
    return result;
}

/* ---- conclude ---- */

/* Lets segments be tried again in which the ledger has more units than this process saw, and
 * recovered if Redis still has fewer. `least`: see sale_suspect_least. Returns the sum of the units
 * left. */
static uint32_t look_again(struct sale *sale, const struct ledger_segment *rows, size_t count,
                           const uint64_t *least)
{
    uint32_t left = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t units = rows[i].capacity - rows[i].sold;
        left += units;
        if (units > sale_hint(sale, rows[i].segment)) {
            uint64_t fence = rows[i].fence > least[i] ? rows[i].fence : least[i];
            sale_hint_set(sale, rows[i].segment, units);
            sale_suspect(sale, rows[i].segment, fence, units);
        }
    }
    return left;
}

bool strategy_fetch(struct stock *stock, struct group *group, struct ledger_segment *rows_out,
                    size_t *count_out)
{
    struct sale *sale = group->sale;
    enum ledger_result found = ledger_segments(stock->ledger, sale_sku(sale), rows_out, count_out);
    if (found != LEDGER_OK && found != LEDGER_NO) {
        group_fail(group, ledger_ping(stock->ledger) == LEDGER_OK);
        return false;
    }
    if (found == LEDGER_NO || rows_out[0].round != group->snapshot.round ||
        *count_out != group->snapshot.segments) {
        stock_sale_reload(stock, sale_sku(sale), &sale);
        group_decide(group, STOCK_AGAIN, UINT32_MAX);
        return false;
    }
    return true;
}

void strategy_remember_left(struct stock *stock, struct group *group, uint32_t left)
{
    sale_remember_left(group->sale, group->snapshot.epoch, left,
                       clock_now_ns() + stock->options.remember_left_ms * CLOCK_NS_PER_MS);
    group_decide(group, STOCK_AGAIN, left);
}

void strategy_conclude(struct stock *stock, struct group *group)
{
    assert(group_open(group));
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    uint64_t least[LEDGER_SEGMENTS_MAX];
    size_t count = 0;
    for (uint32_t i = 0; i < group->snapshot.segments; i++)
        least[i] = sale_suspect_least(group->sale, i);
    if (!strategy_fetch(stock, group, rows, &count))
        return;
    strategy_remember_left(stock, group, look_again(group->sale, rows, count, least));
}
