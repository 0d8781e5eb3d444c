/* The limit per user: an order that would take its user above it is refused before units are
 * taken. */
#include "stock/orders/check_limit.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/orders/ledger_quota.h"
#include "stock/orders/check_settings.h"

enum {
    LOOK_BATCHES = 64, /* in which all users are looked up after one was above the limit: where one
                        * tries, more follow, and each of them would send a batch back */
};

/* An order that counts towards a limit. */
struct claim {
    struct stock_order *order;
    size_t place; /* in the batch: of one user's orders the earlier go first */
};

static int compare_users(const struct stock_order *a, const struct stock_order *b)
{
    int order = strcmp(a->sku, b->sku);
    return order != 0 ? order : strcmp(a->user_id, b->user_id);
}

static int compare_claims(const void *left, const void *right)
{
    const struct claim *a = left, *b = right;
    int order = compare_users(a->order, b->order);
    return order != 0 ? order : (a->place > b->place) - (a->place < b->place);
}

static uint32_t limit_of(const struct stock_order *order)
{
    return order->snapshot->settings.per_user_limit;
}

/* Lists the orders that count towards a limit, sorted so that one user's stand together. */
static size_t collect_claims(struct stock_order *const *orders, size_t count, struct claim *claims)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (orders[i]->outcome == STOCK_OPEN && limit_of(orders[i]) > 0)
            claims[found++] = (struct claim){orders[i], i};
    if (found > 1)
        qsort(claims, found, sizeof *claims, compare_claims);
    return found;
}

static bool same_user(const struct claim *claims, size_t i)
{
    return i > 0 && compare_users(claims[i].order, claims[i - 1].order) == 0;
}

/* Asks for each user once, in the order of the claims, which is the order that the ledger wants. */
static bool look_up(struct stock *stock, const struct claim *claims, size_t count,
                    struct ledger_quota *quotas)
{
    size_t users = 0;
    for (size_t i = 0; i < count; i++) {
        const struct stock_order *order = claims[i].order;
        if (!same_user(claims, i))
            quotas[users++] = (struct ledger_quota){
                .sku = order->sku, .user_id = order->user_id, .round = order->snapshot->round};
    }
    return ledger_quotas_find(stock->ledger, quotas, users) == LEDGER_OK;
}

static void refuse(struct stock *stock, struct stock_order *order, const struct ledger_quota *quota)
{
    stock->look_batches = LOOK_BATCHES;
    settings_refuse(stock, order, STOCK_LIMIT);
    if (order->outcome != STOCK_LIMIT)
        return;
    order->history = malloc(sizeof *order->history);
    if (!order->history)
        abort();
    order->history->limit = limit_of(order);
    order->history->order_count = quota->order_count;
    memcpy(order->history->order_ids, quota->order_ids, sizeof quota->order_ids);
}

/* `quotas` is NULL when nobody was looked up: then all users are taken to have nothing yet, and
 * only what does not fit together in this batch waits. */
static void decide(struct stock *stock, const struct claim *claims, size_t count,
                   const struct ledger_quota *quotas)
{
    static const struct ledger_quota nobody = {.units = 0};
    const struct ledger_quota *quota = &nobody;
    uint64_t units = 0; /* of this user's claims that may go on */
    for (size_t i = 0, user = 0; i < count; i++) {
        struct stock_order *order = claims[i].order;
        if (!same_user(claims, i)) {
            quota = quotas ? &quotas[user++] : &nobody;
            units = 0;
        }
        if ((uint64_t)quota->units + order->qty > limit_of(order)) {
            refuse(stock, order, quota);
        } else if (quota->units + units + order->qty > limit_of(order)) {
            order->outcome = STOCK_AGAIN; /* when it is known what became of the earlier ones */
            stock->look_batches = LOOK_BATCHES;
        } else {
            units += order->qty;
        }
    }
}

bool limit_find(struct stock *stock, struct stock_order *const *orders, size_t count, bool late)
{
    struct claim claims[STOCK_BATCH_MAX];
    struct ledger_quota quotas[STOCK_BATCH_MAX];
    assert(count <= STOCK_BATCH_MAX);
    size_t found = collect_claims(orders, count, claims);
    bool look = late || stock->look_batches > 0;
    for (size_t i = 0; i < found && !look; i++)
        look = claims[i].order->qty > limit_of(claims[i].order); /* its user's orders are named */
    if (found == 0)
        return true;
    if (stock->look_batches > 0)
        stock->look_batches--;
    if (look && !look_up(stock, claims, found, quotas))
        return false;
    decide(stock, claims, found, look ? quotas : NULL);
    return true;
}
