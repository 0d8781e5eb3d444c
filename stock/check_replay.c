/* A retry finds its first order: idempotency keys, looked up with the batch. */
#include "stock/check_replay.h"

#include <stdlib.h>
#include <string.h>

/* Open, or to be refused unless its key was accepted before. */
static bool waits_for_key(const struct stock_order *order)
{
    bool waits = order->outcome == STOCK_OPEN || stock_outcome_refused(order->outcome);
    return waits && order->key[0] != '\0' && !order->twin;
}

static bool same_key(const struct stock_order *a, const struct stock_order *b)
{
    return strcmp(a->key, b->key) == 0 && strcmp(a->user_id, b->user_id) == 0;
}

static bool same_body(const struct stock_order *order, const char *sku, uint32_t qty)
{
    return order->qty == qty && strcmp(order->sku, sku) == 0;
}

/* The orders that wait for their keys. */
static size_t list_keyed(struct stock_order *const *orders, size_t count,
                         struct stock_order **keyed_out)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (waits_for_key(orders[i]))
            keyed_out[found++] = orders[i];
    return found;
}

void replay_link(struct stock_order *const *orders, size_t count)
{
    struct stock_order *keyed[STOCK_BATCH_MAX];
    size_t found = list_keyed(orders, count, keyed);
    for (size_t i = 1; i < found; i++)
        for (size_t j = 0; j < i && !keyed[i]->twin; j++)
            if (!keyed[j]->twin && same_key(keyed[i], keyed[j]))
                keyed[i]->twin = keyed[j];
}

static void copy_allocations(struct stock_order *order, const struct ledger_allocation *from,
                             size_t count)
{
    order->allocation_count = count;
    order->allocations = NULL;
    if (count == 0)
        return;
    order->allocations = malloc(count * sizeof *from);
    if (!order->allocations)
        abort();
    memcpy(order->allocations, from, count * sizeof *from);
    order->segment = from[0].segment;
}

static bool replay_one(struct stock *stock, struct stock_order *order, const struct ledger_key *key)
{
    struct ledger_record record;
    if (!same_body(order, key->sku, key->qty)) {
        order->outcome = STOCK_KEY_REUSED;
        return true;
    }
    if (ledger_order_find(stock->ledger, key->order_id, &record) != LEDGER_OK)
        return false;
    order->order_id = record.order_id;
    order->segment = record.segment < 0 ? 0 : (uint32_t)record.segment;
    copy_allocations(order, record.allocations, record.allocation_count);
    memcpy(order->created_at, record.created_at, sizeof order->created_at);
    memcpy(order->expires_at, record.expires_at, sizeof order->expires_at);
    order->outcome = STOCK_REPLAYED;
    return true;
}

bool replay_find(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    struct stock_order *keyed[STOCK_BATCH_MAX];
    struct ledger_key keys[STOCK_BATCH_MAX];
    size_t found = list_keyed(orders, count, keyed);
    if (found == 0)
        return true;
    for (size_t i = 0; i < found; i++) {
        keys[i].user_id = keyed[i]->user_id;
        keys[i].key = keyed[i]->key;
    }
    if (ledger_keys_find(stock->ledger, keys, found) != LEDGER_OK)
        return false;
    for (size_t i = 0; i < found; i++)
        if (keys[i].order_id != 0 && !replay_one(stock, keyed[i], &keys[i]))
            return false;
    return true;
}

static void copy_history(struct stock_order *order, const struct stock_history *from)
{
    if (!from)
        return;
    order->history = malloc(sizeof *from);
    if (!order->history)
        abort();
    *order->history = *from;
}

static void finish_twin(struct stock_order *order)
{
    const struct stock_order *first = order->twin;
    bool accepted = first->outcome == STOCK_ACCEPTED || first->outcome == STOCK_REPLAYED;
    bool same = same_body(order, first->sku, first->qty);
    order->twin = NULL;
    if (!accepted) { /* its own body may fare otherwise; let it come again by itself */
        order->outcome = same ? first->outcome : STOCK_AGAIN;
        if (same) /* in doubt it is that order that may be there, never this one */
            order->order_id = first->order_id;
        order->at_ms = first->at_ms;
        copy_history(order, first->history);
        order->rate_status = first->rate_status;
        return;
    }
    order->outcome = same ? STOCK_REPLAYED : STOCK_KEY_REUSED;
    if (!same)
        return;
    order->order_id = first->order_id;
    order->segment = first->segment;
    copy_allocations(order, first->allocations, first->allocation_count);
    memcpy(order->created_at, first->created_at, sizeof order->created_at);
    memcpy(order->expires_at, first->expires_at, sizeof order->expires_at);
}

void replay_finish(struct stock_order *const *orders, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (orders[i]->twin)
            finish_twin(orders[i]);
}
