/* Checks an order against its sale: is the sale open, which of its snapshots decides the order, and
 * may the user have more? */
#include "stock/orders/orders.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"

/* A recent confirmation serves as an answer. A sale that was retired meanwhile has changed: the
 * cache no longer has it, and the order's next try finds none. */
static enum standing ask(struct stock *stock, const struct group *group)
{
    struct sale *sale = group->sale;
    enum ledger_result found = LEDGER_OK;
    if (!sale_confirmed(sale, clock_now_ns()))
        found = stock_sale_reload(stock, sale_sku(sale), &sale);
    if (found != LEDGER_OK)
        return found == LEDGER_NO ? CHANGED : SILENT;
    bool same = sale_snapshot(sale).settings.version == group->snapshot.settings.version;
    return same ? CONFIRMED : CHANGED;
}

void settings_refuse(struct stock *stock, struct stock_order *order, enum stock_outcome outcome)
{
    struct group *group = order->group;
    assert(stock_outcome_refused(outcome));
    if (group->standing == NOT_ASKED)
        group->standing = ask(stock, group);
    order->outcome = group->standing == CONFIRMED ? outcome
                     : group->standing == CHANGED ? STOCK_AGAIN
                                                  : STOCK_UNAVAILABLE;
}

struct finding {
    struct ledger_sale *rows;
    size_t count;
};

static void note_found(const struct ledger_sale *row, void *context)
{
    struct finding *finding = context;
    finding->rows[finding->count++] = *row;
}

/* Looks up sales for the cache, which learns only what is on disk (see stock_sale_reload). False
 * when the ledger cannot be asked, a sale's row makes no sense, or the cache is full. */
static bool learn_sales(struct stock *stock, const char *const *skus, size_t count)
{
    struct finding finding = {.rows = memory_must(calloc(count, sizeof *finding.rows))};
    enum ledger_result result = ledger_sales_find(stock->ledger, skus, count, note_found, &finding);
    bool good = result == LEDGER_OK || result == LEDGER_DAMAGED;
    uint64_t connection = ledger_connection(stock->ledger);
    if (good && finding.count > 0)
        good = ledger_confirm(stock->ledger, connection) == LEDGER_OK;
    for (size_t i = 0; good && i < finding.count; i++)
        good = sale_cache_put(stock->sale_cache, &finding.rows[i]) != NULL;
    free(finding.rows);
    return good && result == LEDGER_OK;
}

static void find_group(struct stock *stock, struct stock_order *order)
{
    struct sale *sale = sale_cache_find(stock->sale_cache, order->sku);
    order->group = sale ? batch_group(stock, sale) : NULL;
}

/* Sets the orders' groups. Looks up uncached sales in one query, however many skus the clients make
 * up. False when it is not known whether these sales exist. */
static bool find_sales(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    const char *skus[STOCK_BATCH_MAX];
    size_t unknown = 0;
    for (size_t i = 0; i < count; i++) {
        find_group(stock, orders[i]);
        if (!orders[i]->group)
            skus[unknown++] = orders[i]->sku;
    }
    if (unknown == 0)
        return true;
    bool learnt = learn_sales(stock, skus, unknown);
    for (size_t i = 0; i < count; i++)
        if (!orders[i]->group)
            find_group(stock, orders[i]);
    return learnt;
}

/* A late payment waits for no window: its order was made in one. The ledger has just said that the
 * sale gives the order its units, so a snapshot that does not is out of date. While users are
 * counted, the ledger takes no order. */
static enum stock_outcome check_late(struct stock *stock, const struct stock_order *order)
{
    struct group *group = order->group;
    const struct ledger_settings *settings = &group->snapshot.settings;
    struct sale *sale = group->sale;
    if (!settings->refund_late && !settings->counting && order->round == group->snapshot.round)
        return STOCK_OPEN;
    if (group->standing == NOT_ASKED)
        stock_sale_reload(stock, order->sku, &sale);
    group->standing = CHANGED;
    return STOCK_AGAIN;
}

/* `found`: the look-up worked, so an order without a cached sale has none in the ledger either. */
static void begin_one(struct stock *stock, struct stock_order *order, bool found)
{
    const struct group *group = order->group;
    if (!group) {
        order->outcome = found ? STOCK_UNKNOWN_SKU : STOCK_UNAVAILABLE;
        return;
    }
    bool late = order->payment_ref != NULL;
    enum stock_outcome outcome =
        late ? check_late(stock, order)
             : stock_window_check(&group->snapshot.settings, order->created_ms, &order->at_ms);
    if (outcome == STOCK_AGAIN)
        order->outcome = outcome;
    else if (outcome != STOCK_OPEN)
        settings_refuse(stock, order, outcome);
    else if ((late || order->key[0] != '\0') &&
             sale_known_short(group->sale, order->qty, clock_now_ns()))
        order->outcome = STOCK_SOLD_OUT; /* new keyless orders were checked on arrival */
}

void settings_begin(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    assert(count <= STOCK_BATCH_MAX);
    batch_clear(stock);
    bool found = find_sales(stock, orders, count);
    for (size_t i = 0; i < count; i++)
        begin_one(stock, orders[i], found);
}

/* Increments the version of an ended sale's settings, which waits for transactions under way. From
 * then on the ledger refuses every order that was let in before the end. */
static enum stock_outcome fence_end(struct stock *stock, struct sale *sale)
{
    assert(sale_snapshot(sale).settings.ends_ms > 0);
    struct ledger_settings settings = sale_snapshot(sale).settings;
    int64_t ends_ms = settings.ends_ms;
    if (held_rows_expected(stock) && held_rows_of_sale(stock, sale))
        return STOCK_UNAVAILABLE;
    enum ledger_result result =
        ledger_settings_change(stock->ledger, sale_sku(sale), &settings, false);
    held_rows_met(stock, sale_sku(sale));
    if (result == LEDGER_OK)
        sale_fence_end(sale, ends_ms);
    if (result == LEDGER_OK || result == LEDGER_NO)
        stock_sale_reload(stock, sale_sku(sale), &sale);
    return result == LEDGER_OK   ? STOCK_ENDED
           : result == LEDGER_NO ? STOCK_AGAIN
                                 : STOCK_UNAVAILABLE;
}

void settings_fence_ended(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct stock_order *order = orders[i];
        if (order->outcome != STOCK_ENDED || order->key[0] == '\0' ||
            sale_end_fenced(order->group->sale, order->at_ms))
            continue;
        bool same = sale_snapshot(order->group->sale).settings.ends_ms == order->at_ms;
        order->outcome = same ? fence_end(stock, order->group->sale) : STOCK_AGAIN;
    }
}

/* ---- the limit per user ---- */

enum {
    LOOK_BATCHES = 64, /* batches that look up all users after one exceeded the limit: others will
                        * try, too, and each of them would send a batch back */
};

/* An order that counts towards a limit. */
struct claim {
    struct stock_order *order;
    size_t place; /* in the batch: a user's earlier orders go first */
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
    return order->group->snapshot.settings.per_user_limit;
}

/* Lists the orders that count towards a limit, sorted by user. */
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

/* Asks once for each user, in the order of the claims, which the ledger requires. */
static bool find_quotas(struct stock *stock, const struct claim *claims, size_t count,
                        struct ledger_quota *quotas)
{
    assert(count > 0 && count <= STOCK_BATCH_MAX);
    size_t users = 0;
    for (size_t i = 0; i < count; i++) {
        const struct stock_order *order = claims[i].order;
        if (!same_user(claims, i))
            quotas[users++] = (struct ledger_quota){.sku = order->sku,
                                                    .user_id = order->user_id,
                                                    .round = order->group->snapshot.round};
    }
    return ledger_quotas_find(stock->ledger, quotas, users) == LEDGER_OK;
}

static void refuse_by_limit(struct stock *stock, struct stock_order *order,
                            const struct ledger_quota *quota)
{
    stock->look_batches = LOOK_BATCHES;
    settings_refuse(stock, order, STOCK_LIMIT);
    if (order->outcome != STOCK_LIMIT)
        return;
    assert(!order->history); /* the caller cleared the order after its last try */
    order->history = memory_must(malloc(sizeof *order->history));
    order->history->limit = limit_of(order);
    order->history->order_count = quota->order_count;
    memcpy(order->history->order_ids, quota->order_ids, sizeof quota->order_ids);
}

/* `quotas` is NULL when no user was looked up: then no user counts as having units, and only orders
 * that do not fit together in this batch wait. */
static void decide_claims(struct stock *stock, const struct claim *claims, size_t count,
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
            refuse_by_limit(stock, order, quota);
        } else if (quota->units + units + order->qty > limit_of(order)) {
            /* Its next try will know whether the earlier ones were accepted. */
            order->outcome = STOCK_AGAIN;
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
        look = claims[i].order->qty > limit_of(claims[i].order); /* to name its user's orders */
    if (found == 0)
        return true;
    if (stock->look_batches > 0)
        stock->look_batches--;
    if (look && !find_quotas(stock, claims, found, quotas))
        return false;
    decide_claims(stock, claims, found, look ? quotas : NULL);
    return true;
}
