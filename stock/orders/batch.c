/* Groups a batch's orders by sale, plans the segments that each group tries, and fills orders with
 * their units. */
#include "stock/orders/orders.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"

enum { ATTEMPTS_MAX = 3 }; /* failures of Redis or the ledger that an order survives */

void batch_clear(struct stock *stock)
{
    stock->batch->group_count = 0;
    memset(stock->batch->group_slots, 0, sizeof stock->batch->group_slots);
}

struct group *batch_group(struct stock *stock, struct sale *sale)
{
    struct batch *batch = stock->batch;
    size_t slot = hash_address_slot(sale, BATCH_SLOTS);
    for (; batch->group_slots[slot] != 0; slot = (slot + 1) % BATCH_SLOTS)
        if (batch->groups[batch->group_slots[slot] - 1].sale == sale)
            return &batch->groups[batch->group_slots[slot] - 1];
    assert(batch->group_count < STOCK_BATCH_MAX);
    struct group *group = &batch->groups[batch->group_count++];
    batch->group_slots[slot] = (uint16_t)batch->group_count;
    group->sale = sale;
    group->snapshot = sale_snapshot(sale);
    group->standing = NOT_ASKED;
    return group;
}

static void group_begin(struct stock *stock, struct group *group)
{
    assert(group->snapshot.segments > 0);
    group->first = group->last = NULL;
    group->first_hold = group->last_hold = NULL;
    /* A random start spreads the workers of all processes over the segments. */
    group->start = stock_random(stock, group->snapshot.segments);
    group->tried = group->retries = group->retry_count = group->leftover = 0;
    group->busy = group->stale = group->held = false;
}

struct batch *batch_begin(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    struct batch *batch = stock->batch;
    assert(count <= STOCK_BATCH_MAX);
    stock->hold_count = 0;
    batch->order_count = batch->update_count = batch->row_count = 0;
    for (size_t i = 0; i < batch->group_count; i++)
        group_begin(stock, &batch->groups[i]);
    for (size_t i = 0; i < count; i++) {
        if (orders[i]->outcome != STOCK_OPEN)
            continue;
        struct group *group = orders[i]->group; /* check_settings decided the others */
        struct batch_order *entry = &batch->orders[batch->order_count++];
        *entry = (struct batch_order){.order = orders[i]};
        *(group->last ? &group->last->next : &group->first) = entry;
        group->last = entry;
    }
    return batch;
}

static bool entry_open(const struct batch_order *entry)
{
    return !entry->filled && entry->order->outcome == STOCK_OPEN;
}

/* Returns the next segment to try: a recovered one, or the next from the random start on. False
 * when all have been tried. */
static bool next_segment(struct group *group, uint32_t *segment_out)
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

void group_plan(struct stock *stock, struct group *group, begin_hold *begin)
{
    uint32_t segment = 0, unmet = 0;
    assert(stock->hold_count <= STOCK_HOLDS_MAX);
    for (const struct batch_order *entry = group->first; entry; entry = entry->next)
        unmet += entry_open(entry) ? entry->order->qty : 0;
    unmet = unmet > group->leftover ? unmet - group->leftover : 0;
    while (unmet > 0 && stock->hold_count < STOCK_HOLDS_MAX && next_segment(group, &segment)) {
        uint32_t hint = sale_hint(group->sale, segment);
        if (hint == 0) /* skip it; the ledger is asked before a refusal as sold out */
            continue;
        uint32_t wanted = hint < unmet ? hint : unmet;
        struct segment_hold *hold = &stock->holds[stock->hold_count++];
        begin(stock, hold, group->sale, &group->snapshot, segment, wanted);
        assert(hold->sale == group->sale);
        hold->group_next = NULL;
        *(group->last_hold ? &group->last_hold->group_next : &group->first_hold) = hold;
        group->last_hold = hold;
        unmet -= wanted;
    }
}

void group_retry(struct group *group, uint32_t segment)
{
    assert(segment < LEDGER_SEGMENTS_MAX && group->retry_count < LEDGER_SEGMENTS_MAX);
    if (group->retries++ < group->snapshot.segments)
        group->retry[group->retry_count++] = (uint16_t)segment;
    else
        group->busy = true; /* it stays dirty: no units now, but perhaps not empty */
}

void batch_order_fail(struct batch_order *entry, bool reachable)
{
    struct stock_order *order = entry->order;
    assert(order->outcome == STOCK_OPEN); /* decided once */
    bool again = reachable && ++order->attempts < ATTEMPTS_MAX;
    order->outcome = again ? STOCK_AGAIN : STOCK_UNAVAILABLE;
    entry->filled = false;
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

void batch_fit(struct batch *batch)
{
    for (size_t i = 0; i < batch->group_count; i++) {
        uint32_t units = 0;
        for (const struct segment_hold *hold = batch->groups[i].first_hold; hold;
             hold = hold->group_next)
            units += hold->state == SEGMENT_TAKEN && !hold->withheld ? hold->taken : 0;
        for (struct batch_order *entry = batch->groups[i].first; entry; entry = entry->next) {
            if (!entry->filled)
                continue;
            if (entry->order->qty <= units)
                units -= entry->order->qty;
            else
                batch_order_fail(entry, true);
        }
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
            batch_order_fail(entry, reachable);
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

void batch_lost(struct stock *stock, struct batch *batch)
{
    bool reachable = redis_connect(stock->redis) == REDIS_ANSWERED;
    for (size_t i = 0; i < batch->order_count; i++)
        if (batch->orders[i].order->outcome == STOCK_OPEN)
            batch_order_fail(&batch->orders[i], reachable);
}
