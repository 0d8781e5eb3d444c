/* Finds a retry's first order: looks up idempotency keys for a whole batch.
 *
 * why_not_before: a look-up of all keys costs the ledger as much as writing the orders, and nearly
 * every key is new. So orders are tried first; the ledger's unique key refuses a repeat with its
 * whole batch, and only then the keys are looked up. Repeats come in groups, and each would send a
 * batch back, so for a while after one all keys are looked up before. */
#include "stock/orders/orders.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "sql/orders/orders.h"

enum {
    SLOTS = 2048,      /* of the table of a batch's keys: a power of two, a quarter of it used */
    LOOK_BATCHES = 64, /* batches after a repeat that look up all keys first */
};

static_assert(SLOTS >= 2 * STOCK_BATCH_MAX, "the table has room for a batch");

/* True for an open order, and for one refused or tried again unless its key was accepted before. */
static bool waits_for_key(const struct stock_order *order)
{
    bool deferred = order->deferred && order->outcome == STOCK_AGAIN;
    bool waits = order->outcome == STOCK_OPEN || stock_outcome_refused(order->outcome) || deferred;
    return waits && order->key[0] != '\0';
}

static bool same_key(const struct stock_order *a, const struct stock_order *b)
{
    return strcmp(a->key, b->key) == 0 && strcmp(a->user_id, b->user_id) == 0;
}

static bool same_body(const struct stock_order *order, const char *sku, uint32_t qty)
{
    return order->qty == qty && strcmp(order->sku, sku) == 0;
}

/* Lists the orders that wait for their keys. */
static size_t list_keyed(struct stock_order *const *orders, size_t count,
                         struct stock_order **keyed_out)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (waits_for_key(orders[i]))
            keyed_out[found++] = orders[i];
    return found;
}

/* Returns the earlier order in the table with the same key; NULL: there was none, and the table has
 * this order now. */
static const struct stock_order *find_earlier(struct stock_order *slots[SLOTS],
                                              struct stock_order *order)
{
    uint64_t hash = hash_text(order->key) + 31 * hash_text(order->user_id);
    size_t slot = (hash ^ hash >> 32) % SLOTS;
    for (; slots[slot]; slot = (slot + 1) % SLOTS)
        if (same_key(slots[slot], order))
            return slots[slot];
    slots[slot] = order;
    return NULL;
}

void replay_defer(struct stock_order *const *orders, size_t count)
{
    struct stock_order *slots[SLOTS];
    bool any = false;
    assert(count <= STOCK_BATCH_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!waits_for_key(orders[i]))
            continue;
        if (!any)
            memset(slots, 0, sizeof slots);
        any = true;
        const struct stock_order *earlier = find_earlier(slots, orders[i]);
        /* Two refused orders need not wait for each other: the ledger decides both. */
        bool refused = earlier && stock_outcome_refused(earlier->outcome) &&
                       stock_outcome_refused(orders[i]->outcome);
        orders[i]->deferred = earlier && !refused;
        if (orders[i]->deferred)
            orders[i]->outcome = STOCK_AGAIN;
    }
}

static_assert(sizeof((struct stock_order *)NULL)->status ==
                  sizeof((struct ledger_record *)NULL)->status,
              "a status is copied whole");

/* Gives the order the first one's fields, as the ledger has them now. Only a status that is on disk
 * is told (replay_confirm). */
static void replay_one(struct stock_order *order, const struct ledger_record *record)
{
    assert(order->outcome != STOCK_ACCEPTED); /* its answer is the first order's */
    order->order_id = record->order_id;
    order->round = record->round;
    order->segment = record->segment;
    order->qty = record->qty;
    order->ordered = record->ordered;
    memcpy(order->created_at, record->created_at, sizeof order->created_at);
    memcpy(order->expires_at, record->expires_at, sizeof order->expires_at);
    memcpy(order->status, record->status, sizeof order->status);
    order->outcome = STOCK_REPLAYED;
}

/* One commit cannot confirm what was found on two connections; no connection has the number 0. */
static void note_unconfirmed(struct stock *stock, uint64_t connection)
{
    bool other = stock->replay_unconfirmed && stock->replay_connection != connection;
    stock->replay_connection = other ? 0 : connection;
    stock->replay_unconfirmed = true;
}

/* Decides a repeat whose first order is named by the record. A missing order is not committed yet,
 * or the server died amid its commit: another look will tell. */
static void decide_one(struct stock_order *repeat, const struct ledger_record *record)
{
    if (record->damaged) /* its key must not serve another order */
        repeat->outcome = STOCK_UNAVAILABLE;
    else if (record->status[0] == '\0')
        repeat->outcome = STOCK_AGAIN;
    else if (same_body(repeat, record->sku, record->ordered > 0 ? record->ordered : record->qty))
        replay_one(repeat, record);
    else
        repeat->outcome = STOCK_KEY_REUSED;
}

/* Decides the orders whose keys were found, in one query for all: a batch may consist of repeats.
 * False when the ledger cannot be asked. */
static bool decide_found(struct stock *stock, struct stock_order *const *keyed,
                         const struct ledger_key *keys, size_t count)
{
    assert(count > 0 && count <= STOCK_BATCH_MAX);
    struct stock_order *repeats[STOCK_BATCH_MAX];
    struct ledger_record *wanted[STOCK_BATCH_MAX];
    size_t found = 0;
    struct ledger_record *records = memory_must(malloc(count * sizeof *records));
    for (size_t i = 0; i < count; i++) {
        if (keys[i].order_id == 0)
            continue;
        records[found].order_id = keys[i].order_id;
        wanted[found] = &records[found];
        repeats[found++] = keyed[i];
    }
    uint64_t connection = ledger_connection(stock->ledger);
    bool done = found == 0 || ledger_orders_find(stock->ledger, wanted, found) == LEDGER_OK;
    for (size_t i = 0; i < found && done; i++) {
        decide_one(repeats[i], &records[i]);
        if (repeats[i]->outcome != STOCK_AGAIN)
            note_unconfirmed(stock, connection);
    }
    free(records);
    return done;
}

bool replay_find(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    struct stock_order *keyed[STOCK_BATCH_MAX];
    struct ledger_key keys[STOCK_BATCH_MAX];
    assert(count <= STOCK_BATCH_MAX);
    size_t found = list_keyed(orders, count, keyed);
    if (found == 0)
        return true;
    for (size_t i = 0; i < found; i++) {
        keys[i].user_id = keyed[i]->user_id;
        keys[i].key = keyed[i]->key;
    }
    return ledger_keys_find(stock->ledger, keys, found) == LEDGER_OK &&
           decide_found(stock, keyed, keys, found);
}

static size_t count_open(struct stock_order *const *orders, size_t count)
{
    size_t open = 0;
    for (size_t i = 0; i < count; i++)
        open += orders[i]->outcome == STOCK_OPEN;
    return open;
}

bool replay_find_expected(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    if (stock->replay_batches == 0)
        return true;
    stock->replay_batches--;
    size_t open = count_open(orders, count);
    if (!replay_find(stock, orders, count))
        return false;
    if (count_open(orders, count) < open)
        stock->replay_batches = LOOK_BATCHES;
    return true;
}

bool replay_find_refused(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    assert(count > 0 && count <= STOCK_BATCH_MAX);
    stock->replay_batches = LOOK_BATCHES;
    return replay_find(stock, orders, count);
}

void replay_committed(struct stock *stock)
{
    if (ledger_connection(stock->ledger) == stock->replay_connection)
        stock->replay_unconfirmed = false;
}

void replay_confirm(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    if (!stock->replay_unconfirmed)
        return;
    stock->replay_unconfirmed = false;
    if (ledger_confirm(stock->ledger, stock->replay_connection) == LEDGER_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        if (orders[i]->outcome != STOCK_REPLAYED && orders[i]->outcome != STOCK_KEY_REUSED)
            continue;
        stock_order_clear(orders[i]);
        orders[i]->outcome = STOCK_UNAVAILABLE;
    }
}
