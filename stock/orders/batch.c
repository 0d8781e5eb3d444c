/* A batch being decided: its orders grouped by sale, and which segments fill which order. */
#include "stock/orders/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sql/ledger_time.h"

enum { ATTEMPTS_MAX = 3 }; /* failures of Redis or the ledger that one order rides out */

static struct group *group_of(struct stock *stock, struct batch *batch, struct sale *sale,
                              const struct sale_snapshot *snapshot)
{
    size_t slot = hash_address_slot(sale, BATCH_SLOTS);
    for (; batch->group_slots[slot] != 0; slot = (slot + 1) % BATCH_SLOTS)
        if (batch->groups[batch->group_slots[slot] - 1].sale == sale)
            return &batch->groups[batch->group_slots[slot] - 1];
    assert(batch->group_count < STOCK_BATCH_MAX && snapshot->segments > 0);
    struct group *group = &batch->groups[batch->group_count++];
    batch->group_slots[slot] = (uint16_t)batch->group_count;
    group->sale = sale;
    group->snapshot = *snapshot;
    group->first = group->last = NULL;
    group->first_hold = group->last_hold = NULL;
    /* A random start spreads the workers of all processes over the segments. */
    group->start = stock_random(stock, group->snapshot.segments);
    group->tried = group->retries = group->retry_count = group->leftover = 0;
    group->busy = group->stale = group->held = group->counted = false;
    return group;
}

static void batch_add(struct stock *stock, struct batch *batch, struct stock_order *order)
{
    assert(order->sale && order->snapshot); /* every open order passed check_settings */
    struct group *group = group_of(stock, batch, order->sale, order->snapshot);
    struct batch_order *entry = &batch->orders[batch->order_count++];
    *entry = (struct batch_order){.order = order};
    if (group->last)
        group->last->next = entry;
    else
        group->first = entry;
    group->last = entry;
}

void batch_begin(struct stock *stock, struct batch *batch, struct stock_order *const *orders,
                 size_t count)
{
    assert(count <= STOCK_BATCH_MAX);
    batch->order_count = batch->group_count = 0;
    batch->update_count = batch->row_count = 0;
    memset(batch->group_slots, 0, sizeof batch->group_slots);
    for (size_t i = 0; i < count; i++)
        if (orders[i]->outcome == STOCK_OPEN)
            batch_add(stock, batch, orders[i]);
}

void group_add_hold(struct group *group, struct segment_hold *hold)
{
    assert(hold->sale == group->sale);
    hold->group_next = NULL;
    if (group->last_hold)
        group->last_hold->group_next = hold;
    else
        group->first_hold = hold;
    group->last_hold = hold;
}

static bool entry_open(const struct batch_order *entry)
{
    return !entry->filled && entry->order->outcome == STOCK_OPEN;
}

uint32_t group_unmet(const struct group *group)
{
    uint32_t wanted = 0;
    for (const struct batch_order *entry = group->first; entry; entry = entry->next)
        if (entry_open(entry))
            wanted += entry->order->qty;
    return wanted > group->leftover ? wanted - group->leftover : 0;
}

bool group_next(struct group *group, uint32_t *segment_out)
{
    if (group->retry_count > 0) {
        *segment_out = group->retry[--group->retry_count];
        return true;
    }
    assert(group->tried <= group->snapshot.segments);
    if (group->tried == group->snapshot.segments)
        return false;
    *segment_out = (group->start + group->tried++) % group->snapshot.segments;
    return true;
}

void group_retry(struct group *group, uint32_t segment)
{
    assert(segment < LEDGER_SEGMENTS_MAX && group->retry_count < LEDGER_SEGMENTS_MAX);
    if (group->retries++ < group->snapshot.segments)
        group->retry[group->retry_count++] = (uint16_t)segment;
    else
        group->busy = true; /* it stays dirty: no units now, but it is not known to be empty */
}

static void order_fail(struct stock_order *order, bool reachable)
{
    assert(order->outcome == STOCK_OPEN);
    bool again = reachable && ++order->attempts < ATTEMPTS_MAX;
    order->outcome = again ? STOCK_AGAIN : STOCK_UNAVAILABLE;
}

void group_fill(struct group *group)
{
    for (struct batch_order *entry = group->first; entry && group->leftover > 0;
         entry = entry->next)
        if (entry_open(entry) && entry->order->qty <= group->leftover) {
            entry->filled = true;
            group->leftover -= entry->order->qty;
        }
}

void batch_order_fail(struct batch_order *entry)
{
    entry->filled = false;
    order_fail(entry->order, true);
}

static bool has_units(const struct segment_hold *hold)
{
    return hold->state == SEGMENT_TAKEN && !hold->withheld;
}

void batch_fit(struct batch *batch)
{
    for (size_t i = 0; i < batch->group_count; i++) {
        uint32_t units = 0;
        for (const struct segment_hold *hold = batch->groups[i].first_hold; hold;
             hold = hold->group_next)
            units += has_units(hold) ? hold->taken : 0;
        for (struct batch_order *entry = batch->groups[i].first; entry; entry = entry->next) {
            if (!entry->filled)
                continue;
            if (entry->order->qty <= units)
                units -= entry->order->qty;
            else
                batch_order_fail(entry);
        }
    }
}

void batch_drop_late(struct batch *batch, int64_t now_ns)
{
    for (size_t i = 0; i < batch->order_count; i++) {
        struct batch_order *entry = &batch->orders[i];
        if (!entry->filled || !stock_order_late(entry->order, now_ns))
            continue;
        entry->filled = false;
        entry->order->outcome = STOCK_AGAIN;
    }
}

bool group_open(const struct group *group)
{
    for (const struct batch_order *entry = group->first; entry; entry = entry->next)
        if (entry_open(entry))
            return true;
    return false;
}

int group_passes(const struct group *group)
{
    int passes = 0;
    for (const struct batch_order *entry = group->first; entry; entry = entry->next)
        if (entry_open(entry) && entry->order->passes > passes)
            passes = entry->order->passes;
    return passes;
}

void group_decide(struct group *group, enum stock_outcome outcome, uint32_t left)
{
    for (struct batch_order *entry = group->first; entry; entry = entry->next)
        if (entry_open(entry)) {
            entry->order->passes++;
            entry->order->outcome = entry->order->qty > left ? STOCK_SOLD_OUT : outcome;
        }
}

void group_fail(struct group *group, bool reachable)
{
    for (struct batch_order *entry = group->first; entry; entry = entry->next)
        if (entry_open(entry))
            order_fail(entry->order, reachable);
}

size_t batch_filled(const struct batch *batch, struct stock_order **orders_out)
{
    size_t count = 0;
    for (size_t i = 0; i < batch->order_count; i++)
        if (batch->orders[i].filled) {
            if (orders_out)
                orders_out[count] = batch->orders[i].order;
            count++;
        }
    return count;
}

/* Lists the holds that have sold units, in the order in which all transactions take the segments'
 * rows. */
static void list_updated(struct stock *stock, struct batch *batch)
{
    batch->update_count = 0;
    for (size_t i = 0; i < stock->hold_count; i++) {
        stock->holds[i].update = 0;
        if (stock->holds[i].state == SEGMENT_TAKEN && stock->holds[i].used > 0)
            batch->updated[batch->update_count++] = &stock->holds[i];
    }
    assert(batch->update_count <= STOCK_HOLDS_MAX);
    if (batch->update_count > 1)
        qsort(batch->updated, batch->update_count, sizeof batch->updated[0], segment_compare);
}

static void write_update(struct batch *batch, size_t i, enum ledger_guard guard)
{
    struct segment_hold *hold = batch->updated[i];
    assert(hold->state == SEGMENT_TAKEN && hold->used > 0 && hold->used <= hold->taken);
    hold->update = i + 1;
    batch->updates[i] = (struct ledger_stock_update){
        .sku = sale_sku(hold->sale),
        .segment = hold->segment,
        .round = hold->round,
        .units = hold->used,
        .fence = hold->lock.fence,
        .settled = hold->settled,
        .settings_version = hold->settings_version,
        .guard = guard,
    };
}

/* When an order expires unless it is paid; 0: never. */
static int64_t expires_ms(const struct stock_order *order)
{
    int64_t pay_within_s = order->snapshot->settings.pay_within_s;
    return pay_within_s == 0 ? 0 : order->created_ms + pay_within_s * 1000;
}

static void write_row(struct batch *batch, const struct batch_order *entry)
{
    const struct stock_order *order = entry->order;
    assert(entry->hold->sale == order->sale);
    batch->rows[batch->row_count++] = (struct ledger_order){
        .order_id = order->order_id,
        .sku = order->sku,
        .user_id = order->user_id,
        .key = order->key,
        .round = entry->hold->round,
        .qty = order->qty,
        .segment = entry->hold->segment,
        .created_ms = order->created_ms,
        .limit = order->snapshot->settings.per_user_limit,
        .expires_ms = expires_ms(order),
        .until_ns = order->until_ns,
    };
}

/* The next hold that has units which no order has. */
static struct segment_hold *next_spare(struct segment_hold *hold)
{
    while (hold && (!has_units(hold) || hold->used == hold->taken))
        hold = hold->group_next;
    return hold;
}

/* Uses up one hold after the other, so that as few segments as possible are to be updated. */
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
            assert(hold); /* no more orders were filled than units taken */
            uint32_t part = hold->taken - hold->used;
            part = part < units ? part : units;
            hold->used += part;
            units -= part;
        }
    }
}

void batch_write(struct stock *stock, struct batch *batch, enum ledger_guard guard)
{
    for (size_t i = 0; i < batch->group_count; i++)
        share_out(&batch->groups[i]);
    list_updated(stock, batch);
    for (size_t i = 0; i < batch->update_count; i++)
        write_update(batch, i, guard);
    batch->row_count = 0;
    for (size_t i = 0; i < batch->order_count; i++)
        if (batch->orders[i].filled)
            write_row(batch, &batch->orders[i]);
}

bool batch_refused(const struct batch *batch, const struct segment_hold *hold)
{
    assert(hold->update <= batch->update_count);
    assert(hold->update == 0 || batch->updated[hold->update - 1] == hold);
    return hold->update > 0 && batch->updates[hold->update - 1].refused;
}

static void accept_order(const struct batch_order *entry)
{
    struct stock_order *order = entry->order;
    assert(order->outcome == STOCK_OPEN); /* decided once */
    order->outcome = STOCK_ACCEPTED;
    order->round = entry->hold->round;
    order->segment = entry->hold->segment;
    ledger_time_format(order->created_ms, order->created_at);
    order->expires_at[0] = '\0';
    if (expires_ms(order) != 0)
        ledger_time_format(expires_ms(order), order->expires_at);
}

void batch_accept(struct batch *batch)
{
    for (size_t i = 0; i < batch->order_count; i++)
        if (batch->orders[i].filled)
            accept_order(&batch->orders[i]);
}

void batch_decide(struct batch *batch, enum stock_outcome outcome)
{
    for (size_t i = 0; i < batch->order_count; i++)
        if (batch->orders[i].filled)
            batch->orders[i].order->outcome = outcome;
}

void batch_fail(struct batch *batch, bool reachable)
{
    for (size_t i = 0; i < batch->order_count; i++)
        if (batch->orders[i].filled)
            order_fail(batch->orders[i].order, reachable);
}

void batch_lost(struct batch *batch, bool reachable)
{
    for (size_t i = 0; i < batch->order_count; i++)
        if (batch->orders[i].order->outcome == STOCK_OPEN)
            order_fail(batch->orders[i].order, reachable);
}
