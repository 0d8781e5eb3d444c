/* Pays and cancels orders for clients, and expires orders whose time to pay is over. */
#include "stock/returns/returns.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sql/orders/orders.h"
#include "stock/stock_core.h"

_Static_assert((int)STOCK_CHANGES_MAX <= (int)LEDGER_RETURNS_MAX, "one return takes a whole call");

enum { FAILURES_MAX = 3 }; /* of Redis or the ledger that one call survives */

/* Repeats a call until the orders' statuses are known, time is over, or no server is reachable. */
struct trial {
    struct stock_status_change *open[STOCK_CHANGES_MAX]; /* not decided yet */
    size_t open_count;
    bool decided; /* an order is decided */
    int failures;
    int64_t until_ns;
    int64_t resolve_until_ns; /* once a try is in doubt, which must be resolved */
};

static struct trial trial_of(const struct stock *stock, struct stock_status_change *changes,
                             size_t count, int wait_ms)
{
    int64_t now_ns = clock_now_ns();
    struct trial trial = {
        .open_count = count,
        .until_ns = now_ns + wait_ms * CLOCK_NS_PER_MS,
        .resolve_until_ns = now_ns + stock->options.resolve_ms * CLOCK_NS_PER_MS,
    };
    assert(count > 0 && count <= STOCK_CHANGES_MAX);
    for (size_t i = 0; i < count; i++) {
        changes[i].moved = changes[i].doubt = false;
        trial.open[i] = &changes[i];
    }
    return trial;
}

static void set_all(struct trial *trial, enum stock_state_result result)
{
    for (size_t i = 0; i < trial->open_count; i++)
        trial->open[i]->result = result;
}

static bool is_open(enum stock_state_result result)
{
    return result == STOCK_STATE_BUSY || result == STOCK_STATE_FAILED ||
           result == STOCK_STATE_IN_DOUBT;
}

/* Keeps the undecided orders. True when another try is worthwhile; else their results are final. */
static bool trial_goes_on(struct stock *stock, struct trial *trial)
{
    bool doubt = false, failed = false;
    size_t kept = 0;
    for (size_t i = 0; i < trial->open_count; i++) {
        struct stock_status_change *change = trial->open[i];
        change->doubt |= change->result == STOCK_STATE_IN_DOUBT;
        change->moved |= change->doubt && change->result == STOCK_STATE_OK;
        if (!is_open(change->result))
            continue;
        doubt |= change->doubt;
        failed |= change->result == STOCK_STATE_FAILED;
        trial->open[kept++] = change;
    }
    trial->decided |= kept < trial->open_count;
    trial->open_count = kept;
    trial->failures += failed;
    bool hopeless = trial->failures >= FAILURES_MAX;
    bool enough = trial->decided && !failed;
    int64_t now_ns = clock_now_ns();
    bool again = doubt ? now_ns < trial->resolve_until_ns
                       : kept > 0 && !hopeless && !enough && now_ns < trial->until_ns;
    if (again)
        returns_pause(stock);
    for (size_t i = 0; i < kept && !again; i++)
        if (trial->open[i]->doubt)
            trial->open[i]->result = STOCK_STATE_IN_DOUBT;
    return again;
}

/* Returns the records of the undecided orders, for the ledger to fill in. */
static struct ledger_record *const *open_records(struct trial *trial,
                                                 struct ledger_record *records[STOCK_CHANGES_MAX])
{
    for (size_t i = 0; i < trial->open_count; i++)
        records[i] = &trial->open[i]->record;
    return records;
}

/* Returns the result of a change to `to` by the order's record. BUSY: the change is possible. */
static enum stock_state_result result_of(const struct ledger_record *record, enum ledger_status to)
{
    if (record->damaged)
        return STOCK_STATE_DAMAGED;
    if (record->status[0] == '\0')
        return STOCK_STATE_NO_ORDER;
    if (strcmp(record->status, ledger_status_name(to)) == 0)
        return STOCK_STATE_OK;
    /* A reserved order that is not payable is overdue, or its round is over, though nobody has
     * expired it yet. */
    bool open = to == LEDGER_PAID ? record->payable : ledger_status_may(record->status, to);
    return open ? STOCK_STATE_BUSY : STOCK_STATE_REFUSED;
}

/* ---- paying ---- */

static void pay_once(struct stock *stock, struct trial *trial)
{
    struct ledger_record *records[STOCK_CHANGES_MAX];
    bool moved[STOCK_CHANGES_MAX];
    enum ledger_result paid =
        ledger_pay(stock->ledger, open_records(trial, records), trial->open_count, moved);
    if (paid == LEDGER_DAMAGED) { /* the next try pays the others */
        for (size_t i = 0; i < trial->open_count; i++)
            trial->open[i]->result = records[i]->damaged ? STOCK_STATE_DAMAGED : STOCK_STATE_FAILED;
        return;
    }
    if (paid != LEDGER_OK) {
        set_all(trial, paid == LEDGER_UNKNOWN ? STOCK_STATE_IN_DOUBT : STOCK_STATE_FAILED);
        return;
    }
    for (size_t i = 0; i < trial->open_count; i++) {
        trial->open[i]->result = result_of(records[i], LEDGER_PAID);
        trial->open[i]->moved = moved[i];
    }
}

void stock_pay(struct stock *stock, struct stock_status_change *changes, size_t count, int wait_ms)
{
    struct trial trial = trial_of(stock, changes, count, wait_ms);
    do
        pay_once(stock, &trial);
    while (trial_goes_on(stock, &trial));
}

/* ---- cancelling ---- */

static void read_returned(struct return_order *orders, size_t count)
{
    assert(count <= STOCK_CHANGES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct stock_status_change *change = orders[i].owner;
        change->result = orders[i].result;
        if (orders[i].result != STOCK_STATE_OK)
            continue;
        change->moved = orders[i].moved;
        snprintf(change->record.status, sizeof change->record.status, "%s",
                 ledger_status_name(LEDGER_CANCELLED));
    }
}

static struct return_order order_of(struct stock_status_change *change)
{
    const struct ledger_record *record = &change->record;
    struct return_order order = {
        .order_id = record->order_id, .round = record->round, .qty = record->qty, .owner = change};
    memcpy(order.sku, record->sku, sizeof order.sku);
    return order;
}

static void cancel_once(struct stock *stock, struct trial *trial)
{
    struct ledger_record *records[STOCK_CHANGES_MAX];
    struct stock_status_change *ended[STOCK_CHANGES_MAX]; /* cancelled or paid by others */
    struct return_order orders[STOCK_CHANGES_MAX];
    struct returns returns = {.committed = false};
    size_t ended_count = 0, pending_count = 0;
    if (ledger_orders_find(stock->ledger, open_records(trial, records), trial->open_count) !=
        LEDGER_OK) {
        set_all(trial, STOCK_STATE_FAILED);
        return;
    }
    uint64_t connection = ledger_connection(stock->ledger);
    for (size_t i = 0; i < trial->open_count; i++) {
        struct stock_status_change *change = trial->open[i];
        change->result = result_of(records[i], LEDGER_CANCELLED);
        if (change->result == STOCK_STATE_BUSY)
            orders[pending_count++] = order_of(change);
        else if (change->result == STOCK_STATE_OK || change->result == STOCK_STATE_REFUSED)
            ended[ended_count++] = change;
    }
    if (pending_count > 0)
        returns = returns_end(stock, orders, pending_count, LEDGER_CANCELLED);
    read_returned(orders, pending_count);
    /* Answers orders that somebody else has cancelled or paid only when that is on disk. A commit
     * of this call confirms all that was read before it on the same connection. */
    bool confirmed = returns.committed && ledger_connection(stock->ledger) == connection;
    if (ended_count > 0 && !confirmed && ledger_confirm(stock->ledger, connection) != LEDGER_OK)
        for (size_t i = 0; i < ended_count; i++)
            ended[i]->result = STOCK_STATE_FAILED;
}

void stock_cancel(struct stock *stock, struct stock_status_change *changes, size_t count,
                  int wait_ms)
{
    struct trial trial = trial_of(stock, changes, count, wait_ms);
    do
        cancel_once(stock, &trial);
    while (trial_goes_on(stock, &trial));
}

/* ---- expiring ---- */

static struct return_order return_of_due(const struct ledger_due *due)
{
    struct return_order order = {.order_id = due->order_id, .round = due->round, .qty = due->qty};
    memcpy(order.sku, due->sku, sizeof order.sku);
    return order;
}

/* Keeps the orders to be tried again. `failed_out`: a server has failed. */
static size_t keep_busy(struct return_order *orders, size_t count, bool *failed_out)
{
    size_t kept = 0;
    *failed_out = false;
    for (size_t i = 0; i < count; i++) {
        *failed_out |= orders[i].result == STOCK_STATE_FAILED;
        if (orders[i].result == STOCK_STATE_BUSY)
            orders[kept++] = orders[i];
    }
    return kept;
}

/* Ends orders until no more can be ended. A failed server ends the pass; but orders of other sales
 * do not wait for orders whose rows another transaction holds. */
static enum ledger_result expire_all(struct stock *stock, struct return_order *orders, size_t count,
                                     struct stock_expired *expired)
{
    assert(count <= LEDGER_RETURNS_MAX);
    unsigned held = stock->held_row.count;
    struct returns returns = {.moved = 1};
    bool failed = false;
    while (count > 0 && returns.moved > 0 && !failed) {
        returns = returns_end(stock, orders, count, LEDGER_EXPIRED);
        expired->count += returns.moved;
        expired->awaited += returns.awaited;
        count = keep_busy(orders, count, &failed);
    }
    return failed && stock->held_row.count == held ? LEDGER_FAILED : LEDGER_OK;
}

enum ledger_result stock_expire(struct stock *stock, struct ledger_due_cursor *cursor,
                                struct stock_expired *expired_out)
{
    struct ledger_due *due = malloc(LEDGER_RETURNS_MAX * sizeof *due);
    struct return_order *orders = malloc(LEDGER_RETURNS_MAX * sizeof *orders);
    size_t count = 0;
    if (!due || !orders)
        abort();
    *expired_out = (struct stock_expired){0};
    enum ledger_result result =
        ledger_due_list(stock->ledger, cursor, LEDGER_RETURNS_MAX, due, &count);
    for (size_t i = 0; i < count; i++)
        orders[i] = return_of_due(&due[i]);
    if (count > 0)
        result = expire_all(stock, orders, count, expired_out);
    free(due);
    free(orders);
    return result;
}
