/* Cancels, refunds and unpays orders, or parts of them, for clients, and expires orders whose time
 * to pay is over. */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "stock/returns/trial.h"
#include "stock/stock_core.h"

_Static_assert((int)STOCK_CHANGES_MAX <= (int)LEDGER_RETURNS_MAX, "one return takes a whole call");

/* ---- cancelling, refunding and unpaying ---- */

/* An order that keeps a part has at most that many units afterwards. */
static enum stock_state_result result_of_part(const struct stock_status_change *change,
                                              enum ledger_status from)
{
    const struct ledger_record *record = &change->record;
    if (strcmp(record->status, ledger_status_name(from)) != 0)
        return STOCK_STATE_REFUSED;
    if (change->keep > record->qty && change->keep > record->ordered)
        return STOCK_STATE_KEEP_LIMIT;
    return record->qty <= change->keep ? STOCK_STATE_OK : STOCK_STATE_BUSY;
}

/* What becomes of a payment with its order. NONE: the call is not of payments. */
static const enum ledger_payment_state payment_ends[LEDGER_STATUSES] =
    {[LEDGER_REFUNDED] = LEDGER_PAYMENT_REFUNDED, [LEDGER_RESERVED] = LEDGER_PAYMENT_FAILED};

/* Returns the result by what the ledger has now. BUSY: the change is possible. */
static enum stock_state_result result_of(const struct stock_status_change *change,
                                         enum ledger_status to)
{
    const struct ledger_record *record = &change->record;
    enum ledger_payment_state payment = change->payment.state, end = payment_ends[to];
    if (record->damaged)
        return STOCK_STATE_DAMAGED;
    if (record->status[0] == '\0')
        return STOCK_STATE_NO_ORDER;
    if (end && payment == LEDGER_PAYMENT_NONE)
        return STOCK_STATE_NO_PAYMENT;
    if (end && payment != LEDGER_PAYMENT_TAKEN)
        return change->keep > 0                                         ? STOCK_STATE_REFUSED
               : payment == end                                         ? STOCK_STATE_OK
               : to == LEDGER_REFUNDED && payment == LEDGER_PAYMENT_DUE ? STOCK_STATE_BUSY
                                                                        : STOCK_STATE_REFUSED;
    /* Its order and its payment were read one after the other: read them again. */
    if (end && strcmp(record->status, ledger_status_name(LEDGER_PAID)) != 0)
        return STOCK_STATE_BUSY;
    if (change->keep > 0)
        return result_of_part(change, to == LEDGER_REFUNDED ? LEDGER_PAID : LEDGER_RESERVED);
    if (strcmp(record->status, ledger_status_name(to)) == 0)
        return STOCK_STATE_OK;
    return ledger_status_may(record->status, to) ? STOCK_STATE_BUSY : STOCK_STATE_REFUSED;
}

/* The changes of one try by what they need. */
struct ending {
    enum ledger_status to;
    struct stock_status_change *ended[STOCK_CHANGES_MAX]; /* nothing: others have ended them */
    struct stock_status_change *due[STOCK_CHANGES_MAX];   /* a payment that is due */
    struct return_order orders[STOCK_CHANGES_MAX];        /* all others */
    size_t ended_count, due_count, order_count;
};

static struct return_order order_of(struct stock_status_change *change, enum ledger_status to)
{
    const struct ledger_record *record = &change->record;
    struct return_order order = {.order_id = record->order_id,
                                 .round = record->round,
                                 .keep = change->keep,
                                 .unreturned = to == LEDGER_REFUNDED && !change->restock,
                                 .payment_ref = change->payment.ref,
                                 .owner = change};
    bool none = order.unreturned || to == LEDGER_RESERVED ||
                strcmp(record->status, ledger_status_name(LEDGER_EXPIRED)) == 0;
    order.qty = none ? 0 : record->qty - order.keep;
    memcpy(order.sku, record->sku, sizeof order.sku);
    return order;
}

static void sort_out(struct ending *ending, struct stock_status_change *change)
{
    change->result = result_of(change, ending->to);
    if (change->result == STOCK_STATE_OK || change->result == STOCK_STATE_REFUSED)
        ending->ended[ending->ended_count++] = change;
    else if (change->result == STOCK_STATE_BUSY && ending->to == LEDGER_REFUNDED &&
             change->payment.state == LEDGER_PAYMENT_DUE)
        ending->due[ending->due_count++] = change;
    else if (change->result == STOCK_STATE_BUSY)
        ending->orders[ending->order_count++] = order_of(change, ending->to);
}

static void read_returned(const struct ending *ending)
{
    for (size_t i = 0; i < ending->order_count; i++) {
        struct stock_status_change *change = ending->orders[i].owner;
        struct ledger_record *record = &change->record;
        change->result = ending->orders[i].result;
        if (change->result != STOCK_STATE_OK)
            continue;
        change->moved = ending->orders[i].moved;
        if (change->keep > 0) {
            record->ordered = record->ordered > 0 ? record->ordered : record->qty;
            record->qty = change->keep;
            continue;
        }
        if (payment_ends[ending->to]) {
            change->told = change->moved;
            change->payment.state = payment_ends[ending->to];
        }
        if (ending->orders[i].stays_paid)
            change->moved = false;
        else
            strcpy(record->status, ledger_status_name(ending->to));
    }
}

/* The orders of these payments do not change. One may have come to pay its order meanwhile. */
static void refund_due(struct stock *stock, const struct ending *ending)
{
    struct ledger_record *records[STOCK_CHANGES_MAX];
    struct ledger_payment *payments[STOCK_CHANGES_MAX];
    for (size_t i = 0; i < ending->due_count; i++) {
        records[i] = &ending->due[i]->record;
        payments[i] = &ending->due[i]->payment;
    }
    enum ledger_result result = ledger_refund(stock->ledger, records, payments, ending->due_count);
    for (size_t i = 0; i < ending->due_count; i++) {
        bool refunded = payments[i]->state == LEDGER_PAYMENT_REFUNDED;
        ending->due[i]->result = result == LEDGER_OK && refunded ? STOCK_STATE_OK
                                 : result == LEDGER_OK           ? STOCK_STATE_BUSY
                                 : result == LEDGER_UNKNOWN      ? STOCK_STATE_IN_DOUBT
                                                                 : STOCK_STATE_FAILED;
        ending->due[i]->told = result == LEDGER_OK && payments[i]->told;
    }
}

static void end_once(struct stock *stock, struct trial *trial, enum ledger_status to)
{
    struct ledger_record *records[STOCK_CHANGES_MAX];
    struct ledger_payment *payments[STOCK_CHANGES_MAX];
    struct ending ending;
    struct returns returns = {.committed = false};
    ending.to = to;
    ending.ended_count = ending.due_count = ending.order_count = 0;
    if (ledger_payments_find(stock->ledger, trial_records(trial, records),
                             trial_payments(trial, payments), trial->open_count) != LEDGER_OK) {
        trial_set_all(trial, STOCK_STATE_FAILED);
        return;
    }
    uint64_t connection = ledger_connection(stock->ledger);
    for (size_t i = 0; i < trial->open_count; i++)
        sort_out(&ending, trial->open[i]);
    if (ending.order_count > 0)
        returns = returns_end(stock, ending.orders, ending.order_count, to);
    read_returned(&ending);
    if (ending.due_count > 0)
        refund_due(stock, &ending);
    /* Answers orders that somebody else has ended only when that is on disk. A commit of this call
     * confirms all that was read before it on the same connection. */
    bool confirmed = returns.committed && ledger_connection(stock->ledger) == connection;
    if (ending.ended_count > 0 && !confirmed &&
        ledger_confirm(stock->ledger, connection) != LEDGER_OK)
        for (size_t i = 0; i < ending.ended_count; i++)
            ending.ended[i]->result = STOCK_STATE_FAILED;
}

static void end_all(struct stock *stock, struct stock_status_change *changes, size_t count,
                    int wait_ms, enum ledger_status to)
{
    struct trial trial = trial_of(stock, changes, count, wait_ms);
    do
        end_once(stock, &trial, to);
    while (trial_goes_on(stock, &trial));
}

void stock_cancel(struct stock *stock, struct stock_status_change *changes, size_t count,
                  int wait_ms)
{
    end_all(stock, changes, count, wait_ms, LEDGER_CANCELLED);
}

void stock_refund(struct stock *stock, struct stock_status_change *changes, size_t count,
                  int wait_ms)
{
    end_all(stock, changes, count, wait_ms, LEDGER_REFUNDED);
}

/* The orders expire by the ledger's clock, so they are read again, with what others have made of
 * them since, which is confirmed. */
void stock_unpay(struct stock *stock, struct stock_status_change *changes, size_t count,
                 int wait_ms)
{
    struct ledger_record *records[STOCK_CHANGES_MAX];
    end_all(stock, changes, count, wait_ms, LEDGER_RESERVED);
    for (size_t i = 0; i < count; i++)
        records[i] = &changes[i].record;
    bool found = ledger_orders_find(stock->ledger, records, count) == LEDGER_OK &&
                 ledger_confirm(stock->ledger, ledger_connection(stock->ledger)) == LEDGER_OK;
    for (size_t i = 0; i < count; i++)
        if (changes[i].result == STOCK_STATE_OK && (!found || records[i]->damaged))
            changes[i].result = STOCK_STATE_IN_DOUBT;
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
    struct ledger_due *due = memory_must(malloc(LEDGER_RETURNS_MAX * sizeof *due));
    struct return_order *orders = memory_must(malloc(LEDGER_RETURNS_MAX * sizeof *orders));
    size_t count = 0;
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
