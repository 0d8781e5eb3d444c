/* Checks what is told of payments, refunds, extended reservations and parts of orders, against the
 * ledger: after each commit, at the answers, and at the end. */
#include "test/simulate/promise_pay.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/ledger/ledger_table.h"
#include "test/simulate/ledger/ledger_text.h"
#include "test/simulate/machine/chance.h"
#include "test/simulate/machine/loop.h"
#include "test/simulate/scene.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"

enum {
    TOLD_MAX = 512,
    CALL_MS = 600,       /* a call keeps what it has decided for so long */
    TRANSACTION_MS = 700 /* from its decision to its commit, unless that is late */
};

/* What was answered of a payment; it must be so on the disk, or have ended since. */
struct told {
    uint64_t order_id;
    char ref[NAME_MAX_SIZE];
    enum ledger_payment_state state;
    enum ledger_payment_outcome outcome;
    int64_t told_ns;
};

/* A payment that was asked for. */
struct asked_payment {
    uint64_t order_id;
    char ref[NAME_MAX_SIZE];
    unsigned calls;
    bool nothing_done; /* so its only call was answered */
};

/* What an order must have at least, or at most. */
struct bound {
    uint64_t order_id;
    uint32_t keep;      /* units at most; 0: any */
    int64_t expires_ms; /* at the earliest; 0: any */
};

static struct {
    struct told told[TOLD_MAX];
    struct asked_payment asked[TOLD_MAX];
    struct bound bounds[TOLD_MAX];
    struct added {
        uint64_t order_id;
        uint32_t units; /* that stayed sold when the order was refunded */
    } refunded[TOLD_MAX];
    size_t told_count, asked_count, bound_count, refunded_count;
} now;

void promise_pay_begin(void)
{
    now.told_count = now.asked_count = now.bound_count = now.refunded_count = 0;
}

static const struct version *order_now(uint64_t order_id)
{
    const struct row *row = row_of_order(order_id);
    return row && row->was.there ? &row->was : NULL;
}

static const struct version *sale_now(const char *sku)
{
    const struct row *row = row_of_sale(sku);
    return row && row->was.there ? &row->was : NULL;
}

static const struct version *on_disk(const struct row *row)
{
    const struct version *disk = row ? (row->on_disk ? &row->was : &row->disk) : NULL;
    return disk && disk->there ? disk : NULL;
}

static bool has_paid(enum ledger_payment_outcome outcome)
{
    return outcome == LEDGER_IN_TIME || outcome == LEDGER_RETAKEN;
}

/* ---- the ledger by itself: an order and its payments ---- */

/* The number of the order's payments in these states, by their bits. */
static uint32_t count_in(uint64_t order_id, unsigned states)
{
    uint32_t found = 0;
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_PAYMENT, i)); i++)
        found += row->was.there && row->was.payment.order_id == order_id &&
                 (states & 1u << row->was.payment.state);
    return found;
}

/* A payment that is taken pays its order. One that has paid it is refunded with it, unless another
 * pays it since, or has failed. */
static void check_one(const struct version *order, const struct version *payment)
{
    const struct payment_row *row = &payment->payment;
    const struct row *due = row_of_due(row->order_id, payment->key);
    unsigned long long id = row->order_id;
    enum ledger_status status = order->order.status;
    bool paid_since = count_in(id, 1u << LEDGER_PAYMENT_TAKEN | 1u << LEDGER_PAYMENT_FAILED) > 0;
    bool fits = row->state == LEDGER_PAYMENT_TAKEN      ? status == LEDGER_PAID
                : !has_paid(row->outcome)               ? true
                : row->state == LEDGER_PAYMENT_REFUNDED ? status == LEDGER_REFUNDED || paid_since
                                                        : row->state == LEDGER_PAYMENT_FAILED;
    if (!fits)
        promise_break("payment %s of order %llu was %s and is %s, and the order is %s",
                      payment->key, id, ledger_payment_outcome_name(row->outcome),
                      ledger_payment_state_name(row->state), ledger_status_name(status));
    if ((due && due->was.there) != (row->state == LEDGER_PAYMENT_DUE))
        promise_break("payment %s of order %llu is %s, and is %slisted as due", payment->key, id,
                      ledger_payment_state_name(row->state), due && due->was.there ? "" : "not ");
}

static void check_payments(uint64_t order_id)
{
    const struct version *order = order_now(order_id);
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_PAYMENT, i)); i++) {
        if (!row->was.there || row->was.payment.order_id != order_id)
            continue;
        if (order)
            check_one(order, &row->was);
        else
            promise_break("payment %s is there, and its order %llu is not", row->was.key,
                          (unsigned long long)order_id);
    }
    uint32_t paid = count_in(order_id, 1u << LEDGER_PAYMENT_TAKEN);
    if (paid > 1)
        promise_break("order %llu is paid by %u payments", (unsigned long long)order_id, paid);
    if (order && order->order.status == LEDGER_REFUNDED &&
        count_in(order_id, 1u << LEDGER_PAYMENT_REFUNDED) == 0)
        promise_break("order %llu is refunded, and none of its payments is",
                      (unsigned long long)order_id);
    if (order && order->order.status == LEDGER_REFUNDED &&
        count_in(order_id, 1u << LEDGER_PAYMENT_DUE) > 0)
        tally("payment of a refunded order due");
}

/* What a payment may become that was in that state. */
static bool state_may_follow(enum ledger_payment_state from, enum ledger_payment_state to)
{
    bool over = from == LEDGER_PAYMENT_REFUNDED || from == LEDGER_PAYMENT_FAILED;
    return from == to || (!over && to != LEDGER_PAYMENT_NONE && to != LEDGER_PAYMENT_DUE);
}

/* ---- a payment that is told ---- */

static bool has_stepped(void)
{
    return chance_struck_kind(FAULT_LEDGER_CLOCK);
}

static bool is_overdue(const struct version *order)
{
    return order->order.expires_ms != 0 && promise_due_ms(order) <= ledger_server_ms();
}

/* No transaction was kept from its end. */
static bool is_prompt(void)
{
    return !has_stepped() && !chance_struck_kind(FAULT_COMMIT_LATE) &&
           !chance_struck_kind(FAULT_PAUSE) && !chance_struck_kind(FAULT_LEDGER_SLOW);
}

/* So long that a transaction which began in time is over. */
static bool is_long_overdue(const struct version *order)
{
    return order->order.expires_ms != 0 &&
           promise_due_ms(order) + TRANSACTION_MS < ledger_server_ms();
}

/* The order is of the sale's present round. */
static bool is_present(const struct version *order)
{
    const struct version *sale = sale_now(order->sku);
    return sale && sale->sale.round == order->order.round;
}

static uint32_t units_of_user(const struct version *order, bool ever)
{
    uint32_t units = 0;
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++) {
        const struct version *other = &row->was;
        if (!other->there || other->order.round != order->order.round ||
            strcmp(other->sku, order->sku) != 0 || strcmp(other->user_id, order->user_id) != 0)
            continue;
        uint32_t most =
            other->order.ordered > other->order.qty ? other->order.ordered : other->order.qty;
        units += ever ? most : promise_held(other);
    }
    return units;
}

/* An order that takes its units again keeps to the settings that are in force then, as a new one,
 * but for the window and the pause. */
static void check_retake(const struct version *order)
{
    const struct version *sale = sale_now(order->sku);
    unsigned long long id = order->order.order_id;
    if (!is_present(order)) {
        promise_break("order %llu is retaken in a round that is over", id);
        return;
    }
    const struct ledger_settings *settings = &sale->sale.settings;
    if (count_seen(sale->sku, sale->sale.round, NULL))
        promise_break("order %llu is retaken while users are counted", id);
    if (settings->refund_late)
        promise_break("order %llu is retaken, and its sale has late payments refunded", id);
    uint32_t units = units_of_user(order, false);
    if (settings->per_user_limit > 0 && units > settings->per_user_limit)
        promise_break("user %s has %u units with order %llu, which was retaken, and the limit is "
                      "%u",
                      order->user_id, units, id, settings->per_user_limit);
}

static void check_taken(const struct row *row, enum ledger_payment_outcome outcome)
{
    const struct version *order = &row->was, *before = &row->before;
    unsigned long long id = order->order.order_id;
    if (before->order.status == LEDGER_EXPIRED && outcome == LEDGER_RETAKEN) {
        tally("order retaken");
        check_retake(order);
        return;
    }
    if (before->order.status != LEDGER_RESERVED || order->order.status != LEDGER_PAID)
        promise_break("order %llu was %s when it was paid %s", id,
                      ledger_status_name(before->order.status),
                      ledger_payment_outcome_name(outcome));
    if (!is_present(order))
        promise_break("order %llu is paid in a round that is over", id);
    if (outcome == LEDGER_IN_TIME) {
        if (is_prompt() && is_long_overdue(before))
            promise_break("order %llu is paid in time when its time is over", id);
        return;
    }
    tally("overdue order paid");
    if (!has_stepped() && !is_overdue(before))
        promise_break("order %llu is paid late before its time is over", id);
    if (is_present(order) && sale_now(order->sku)->sale.settings.refund_late)
        promise_break("order %llu is paid late, and its sale has late payments refunded", id);
}

static int64_t window_ns(void)
{
    return (CALL_MS + promise_grace_ms()) * LOOP_MS;
}

/* A late payment is too late only for a reason, which the ledger had then or a moment before. */
static void check_too_late(const struct version *order, const char *ref)
{
    enum ledger_status status = order->order.status;
    int64_t since_ns = loop_now_ns() - window_ns();
    if (status == LEDGER_CANCELLED || status == LEDGER_REFUNDED || !is_present(order))
        return;
    if (status == LEDGER_RESERVED && !has_stepped() && !is_overdue(order))
        promise_break("payment %s of order %llu is too late before the order's time is over", ref,
                      (unsigned long long)order->order.order_id);
    /* A limit does not matter to an order that still has its units. */
    uint32_t units = status == LEDGER_RESERVED ? 0 : units_of_user(order, true);
    if (!promise_takes_late(order->sku, units, since_ns))
        return;
    tally("payment too late in an open sale");
    bool is_short = scene.counters || promise_was_short(order->sku, order->order.qty, since_ns);
    if (status == LEDGER_RESERVED || !is_short)
        promise_break("payment %s of order %llu is too late, and the order could have its units",
                      ref, (unsigned long long)order->order.order_id);
}

static void check_told(const struct version *payment)
{
    const struct row *row = row_of_order(payment->payment.order_id);
    enum ledger_payment_outcome outcome = payment->payment.outcome;
    tally(ledger_payment_outcome_name(outcome));
    if (!row || !row->was.there)
        return; /* check_payments says so */
    if (has_paid(outcome))
        check_taken(row, outcome);
    else if ((outcome == LEDGER_ALREADY_PAID) != (row->was.order.status == LEDGER_PAID))
        promise_break("payment %s of order %llu is %s, and the order is %s", payment->key,
                      (unsigned long long)payment->payment.order_id,
                      ledger_payment_outcome_name(outcome),
                      ledger_status_name(row->was.order.status));
    else if (outcome == LEDGER_TOO_LATE)
        check_too_late(&row->was, payment->key);
    if (!has_paid(outcome) && payment->payment.state != LEDGER_PAYMENT_DUE)
        promise_break("payment %s of order %llu begins as %s", payment->key,
                      (unsigned long long)payment->payment.order_id,
                      ledger_payment_state_name(payment->payment.state));
}

/* True when a commit has changed a payment of the order from one state to one of these bits. */
static bool has_moved(const struct txn *txn, uint64_t order_id, enum ledger_payment_state from,
                      unsigned to)
{
    for (size_t i = 0; i < txn->count; i++) {
        const struct row *row = txn->rows[i];
        if (row->table == TABLE_PAYMENT && row->was.there && row->before.there &&
            row->was.payment.order_id == order_id && row->before.payment.state == from &&
            (to & 1u << row->was.payment.state))
            return true;
    }
    return false;
}

static void check_payment(const struct txn *txn, const struct row *row)
{
    const struct payment_row *from = &row->before.payment, *to = &row->was.payment;
    if (!row->was.there) {
        if (row->before.there)
            promise_break("payment %s of order %llu is gone", row->before.key,
                          (unsigned long long)from->order_id);
        return;
    }
    if (!row->before.there)
        check_told(&row->was);
    else if (from->outcome != to->outcome || !state_may_follow(from->state, to->state) ||
             (from->state == LEDGER_PAYMENT_DUE && to->state == LEDGER_PAYMENT_FAILED))
        promise_break("payment %s of order %llu was %s, %s, and is %s, %s", row->was.key,
                      (unsigned long long)to->order_id, ledger_payment_state_name(from->state),
                      ledger_payment_outcome_name(from->outcome),
                      ledger_payment_state_name(to->state),
                      ledger_payment_outcome_name(to->outcome));
    if (row->before.there && from->state == LEDGER_PAYMENT_DUE &&
        to->state == LEDGER_PAYMENT_TAKEN) {
        tally("due payment pays its order");
        if (!has_moved(txn, to->order_id, LEDGER_PAYMENT_TAKEN,
                       1u << LEDGER_PAYMENT_REFUNDED | 1u << LEDGER_PAYMENT_FAILED))
            promise_break("payment %s of order %llu was due and is taken, in the place of none",
                          row->was.key, (unsigned long long)to->order_id);
    }
    check_payments(to->order_id);
}

/* ---- an order that changes ---- */

static bool may_become(enum ledger_status from, enum ledger_status to)
{
    switch (to) {
    case LEDGER_PAID:
        return from == LEDGER_RESERVED || from == LEDGER_EXPIRED;
    case LEDGER_REFUNDED:
    case LEDGER_RESERVED:
        return from == LEDGER_PAID;
    case LEDGER_CANCELLED:
        return from == LEDGER_RESERVED || from == LEDGER_EXPIRED;
    default:
        return from == LEDGER_RESERVED;
    }
}

/* True for a payment of the order that this commit has made taken. */
static bool is_retaken_now(const struct txn *txn, uint64_t order_id)
{
    for (size_t i = 0; i < txn->count; i++) {
        const struct row *row = txn->rows[i];
        if (row->table == TABLE_PAYMENT && row->was.there && !row->before.there &&
            row->was.payment.order_id == order_id && row->was.payment.outcome == LEDGER_RETAKEN)
            return true;
    }
    return false;
}

static void check_status(const struct txn *txn, const struct row *row)
{
    const struct order_row *from = &row->before.order, *to = &row->was.order;
    unsigned long long id = to->order_id;
    if (from->status == to->status)
        return;
    if (!may_become(from->status, to->status))
        promise_break("order %llu was %s, and is %s", id, ledger_status_name(from->status),
                      ledger_status_name(to->status));
    if (from->status == LEDGER_EXPIRED && to->status == LEDGER_PAID &&
        !is_retaken_now(txn, to->order_id))
        promise_break("order %llu was expired, and is paid by no late payment", id);
    if (from->status == LEDGER_EXPIRED && to->status == LEDGER_CANCELLED)
        tally("expired order cancelled");
    if (to->status == LEDGER_RESERVED)
        tally("order unpaid");
    if (to->status == LEDGER_RESERVED &&
        (!has_moved(txn, id, LEDGER_PAYMENT_TAKEN, 1u << LEDGER_PAYMENT_FAILED) ||
         count_in(id, 1u << LEDGER_PAYMENT_TAKEN) > 0))
        promise_break("order %llu was paid and is reserved, and its payment has not failed", id);
    if (to->status == LEDGER_RESERVED && !is_present(&row->was))
        promise_break("order %llu is reserved again in a round that is over", id);
    if (to->status == LEDGER_EXPIRED && is_present(&row->was) && !has_stepped() &&
        !is_overdue(&row->before))
        promise_break("order %llu is expired before its time to pay is over", id);
}

/* Held for longer only in time, and no longer than the sale allows. */
static void check_expiry(const struct row *row)
{
    const struct order_row *from = &row->before.order, *to = &row->was.order;
    const struct version *sale = sale_now(row->was.sku);
    unsigned long long id = to->order_id;
    if (from->status == LEDGER_PAID && to->status == LEDGER_RESERVED) {
        uint32_t within_s = sale ? sale->sale.settings.pay_within_s : 0;
        if ((within_s == 0) != (to->expires_ms == 0) ||
            (!has_stepped() && to->expires_ms > ledger_server_ms() + (int64_t)within_s * 1000))
            promise_break("order %llu is reserved again for too long", id);
        return;
    }
    if (from->expires_ms == to->expires_ms)
        return;
    tally("order extended");
    int64_t hold_ms = sale ? (int64_t)sale->sale.settings.hold_max_s * 1000 : 0;
    if (to->expires_ms < from->expires_ms || from->expires_ms == 0 ||
        from->status != LEDGER_RESERVED || to->status != LEDGER_RESERVED)
        promise_break("order %llu, %s, expires at another time", id,
                      ledger_status_name(from->status));
    if (!is_present(&row->was))
        promise_break("order %llu is extended, and its round is over", id);
    if (hold_ms == 0 || to->expires_ms > to->created_ms + hold_ms)
        promise_break("order %llu is held for %lld ms, and its sale allows %lld", id,
                      (long long)(to->expires_ms - to->created_ms), (long long)hold_ms);
    if (is_prompt() && is_long_overdue(&row->before))
        promise_break("order %llu is extended when its time to pay is over", id);
}

/* Its units only become fewer; what is not put back on sale stays counted. */
static void check_units(const struct row *row)
{
    const struct order_row *from = &row->before.order, *to = &row->was.order;
    uint32_t given = from->qty - to->qty, added = to->unreturned - from->unreturned;
    unsigned long long id = to->order_id;
    bool ends = from->status == LEDGER_PAID && to->status == LEDGER_REFUNDED;
    if (ends && now.refunded_count < TOLD_MAX)
        now.refunded[now.refunded_count++] = (struct added){to->order_id, added};
    if (to->qty > from->qty || to->qty == 0 || to->unreturned < from->unreturned)
        promise_break("order %llu had %u units and %u, and has %u and %u", id, from->qty,
                      from->unreturned, to->qty, to->unreturned);
    if (given > 0 && to->ordered != (from->ordered > 0 ? from->ordered : from->qty))
        promise_break("order %llu was for %u units, and is told as for %u", id,
                      from->ordered > 0 ? from->ordered : from->qty, to->ordered);
    if (given > 0)
        tally("part of an order given back");
    if (added != 0 && added != (ends ? from->qty : given))
        promise_break("order %llu gives %u units back, and %u stay sold", id,
                      ends ? from->qty : given, added);
    if (added != 0 && from->status != LEDGER_PAID)
        promise_break("order %llu keeps units sold, and was %s", id,
                      ledger_status_name(from->status));
}

void promise_pay_commit(const struct txn *txn)
{
    for (size_t i = 0; i < txn->count; i++) {
        const struct row *row = txn->rows[i];
        if (row->table == TABLE_PAYMENT)
            check_payment(txn, row);
        if (row->table == TABLE_DUE && (row->was.there || row->before.there))
            check_payments(row->was.there ? row->was.payment.order_id
                                          : row->before.payment.order_id);
        if (row->table != TABLE_ORDER || !row->was.there || !row->before.there)
            continue;
        check_status(txn, row);
        check_expiry(row);
        check_units(row);
        if (row->before.order.status != row->was.order.status)
            check_payments(row->was.order.order_id);
    }
}

/* ---- what is told ---- */

/* On the disk it is as it was told, or has ended since. */
static void check_on_disk(const struct told *told)
{
    const struct version *disk = on_disk(row_of_payment(told->order_id, told->ref));
    unsigned long long id = told->order_id;
    if (!disk)
        promise_break("payment %s of order %llu was told as %s, and is not on the disk", told->ref,
                      id, ledger_payment_state_name(told->state));
    else if (!state_may_follow(told->state, disk->payment.state))
        promise_break("payment %s of order %llu was told as %s, and is %s on the disk", told->ref,
                      id, ledger_payment_state_name(told->state),
                      ledger_payment_state_name(disk->payment.state));
    else if (told->outcome != LEDGER_OUTCOME_NONE && disk->payment.outcome != told->outcome)
        promise_break("payment %s of order %llu was told as %s, and is %s on the disk", told->ref,
                      id, ledger_payment_outcome_name(told->outcome),
                      ledger_payment_outcome_name(disk->payment.outcome));
}

/* Agrees with what was told before this call began. */
static void check_before(const struct told *told, int64_t since_ns)
{
    for (size_t i = 0; i < now.told_count; i++) {
        const struct told *first = &now.told[i];
        if (first->order_id != told->order_id || strcmp(first->ref, told->ref) != 0)
            continue;
        bool other = first->outcome != LEDGER_OUTCOME_NONE &&
                     told->outcome != LEDGER_OUTCOME_NONE && first->outcome != told->outcome;
        bool back = first->told_ns < since_ns && !state_may_follow(first->state, told->state);
        if (other || back)
            promise_break(
                "payment %s of order %llu was told as %s, %s, and now as %s, %s", told->ref,
                (unsigned long long)told->order_id, ledger_payment_state_name(first->state),
                ledger_payment_outcome_name(first->outcome), ledger_payment_state_name(told->state),
                ledger_payment_outcome_name(told->outcome));
    }
}

static void note_told(const struct stock_status_change *change, int64_t since_ns)
{
    struct told told = {.order_id = change->record.order_id,
                        .state = change->payment.state,
                        .outcome = change->payment.outcome,
                        .told_ns = loop_now_ns()};
    text_copy(told.ref, change->payment.ref);
    check_on_disk(&told);
    check_before(&told, since_ns);
    if (now.told_count < TOLD_MAX)
        now.told[now.told_count++] = told;
}

static struct asked_payment *asked_of(uint64_t order_id, const char *ref)
{
    for (size_t i = 0; i < now.asked_count; i++)
        if (now.asked[i].order_id == order_id && strcmp(now.asked[i].ref, ref) == 0)
            return &now.asked[i];
    return NULL;
}

void promise_payment_begin(uint64_t order_id, const char *ref)
{
    struct asked_payment *asked = asked_of(order_id, ref);
    if (!asked && now.asked_count < TOLD_MAX) {
        asked = &now.asked[now.asked_count++];
        *asked = (struct asked_payment){.order_id = order_id};
        text_copy(asked->ref, ref);
    }
    if (asked) {
        asked->calls++;
        asked->nothing_done = false;
    }
}

/* Nothing was done, so the payment is not there, unless another call has told it. */
static void check_nothing_done(const struct asked_payment *asked)
{
    const struct row *row = row_of_payment(asked->order_id, asked->ref);
    if (asked->nothing_done && asked->calls == 1 && row && row->was.there)
        promise_break("payment %s of order %llu was answered as not done, and is there", asked->ref,
                      (unsigned long long)asked->order_id);
}

static const char *result_name(enum stock_state_result result)
{
    static const char *const names[] = {
        [STOCK_STATE_OK] = "done",
        [STOCK_STATE_REFUSED] = "refused",
        [STOCK_STATE_IN_DOUBT] = "in doubt",
        [STOCK_STATE_NO_PAYMENT] = "no such payment",
        [STOCK_STATE_NO_ORDER] = "no order",
        [STOCK_STATE_HOLD_LIMIT] = "above the limit",
        [STOCK_STATE_KEEP_LIMIT] = "too much to keep",
    };
    size_t count = sizeof names / sizeof names[0];
    return (size_t)result < count && names[result] ? names[result] : "not done";
}

void promise_payment(const struct stock_status_change *change, int64_t since_ns)
{
    enum ledger_payment_state state = change->payment.state;
    struct asked_payment *asked = asked_of(change->record.order_id, change->payment.ref);
    unsigned long long id = change->record.order_id;
    story("  payment %s of order %llu: %s, %s %s", change->payment.ref, id,
          result_name(change->result), ledger_payment_state_name(state),
          ledger_payment_outcome_name(change->payment.outcome));
    if (asked)
        asked->nothing_done =
            change->result == STOCK_STATE_BUSY || change->result == STOCK_STATE_FAILED;
    if (asked)
        check_nothing_done(asked);
    const struct row *row = row_of_payment(change->record.order_id, change->payment.ref);
    if (change->result == STOCK_STATE_NO_ORDER && on_disk(row) && row->committed_ns < since_ns)
        promise_break("payment %s of order %llu is told as of no order, and is there",
                      change->payment.ref, id);
    if (change->result == STOCK_STATE_OK && row && row->was.payment.outcome == LEDGER_RETAKEN &&
        change->payment.outcome != LEDGER_RETAKEN)
        promise_break("payment %s of order %llu is retaken, and its answer does not say so",
                      change->payment.ref, id);
    if (change->result == STOCK_STATE_OK && state != LEDGER_PAYMENT_TAKEN)
        promise_break("payment %s of order %llu is answered as done, and is %s",
                      change->payment.ref, id, ledger_payment_state_name(state));
    if (change->result == STOCK_STATE_REFUSED && state != LEDGER_PAYMENT_DUE &&
        state != LEDGER_PAYMENT_REFUNDED && state != LEDGER_PAYMENT_FAILED)
        promise_break("payment %s of order %llu is refused, and is \"%s\"", change->payment.ref, id,
                      ledger_payment_state_name(state));
    if (change->result == STOCK_STATE_OK || change->result == STOCK_STATE_REFUSED)
        note_told(change, since_ns);
}

/* ---- bounds ---- */

static void check_bound(const struct bound *bound)
{
    const struct version *disk = on_disk(row_of_order(bound->order_id));
    unsigned long long id = bound->order_id;
    if (!disk)
        promise_break("order %llu was changed, and is not on the disk", id);
    else if (bound->keep > 0 && disk->order.qty > bound->keep)
        promise_break("order %llu was to keep %u units, and has %u", id, bound->keep,
                      disk->order.qty);
    else if (bound->expires_ms != 0 && disk->order.expires_ms != 0 &&
             disk->order.expires_ms < bound->expires_ms &&
             count_in(id, 1u << LEDGER_PAYMENT_FAILED) == 0)
        promise_break("order %llu was extended, and expires %lld ms before that", id,
                      (long long)(bound->expires_ms - disk->order.expires_ms));
}

static void note_bound(struct bound bound)
{
    check_bound(&bound);
    if (now.bound_count < TOLD_MAX)
        now.bounds[now.bound_count++] = bound;
}

void promise_kept(const struct stock_status_change *change)
{
    story("  order %llu is to keep %u: %s", (unsigned long long)change->record.order_id,
          change->keep, result_name(change->result));
    if (change->result == STOCK_STATE_OK)
        note_bound((struct bound){.order_id = change->record.order_id, .keep = change->keep});
}

/* The first call decides whether the units can be sold again. */
static void check_restock(const struct stock_status_change *change)
{
    const struct version *order = order_now(change->record.order_id);
    for (size_t i = now.refunded_count; i-- > 0;) {
        if (now.refunded[i].order_id != change->record.order_id || !order)
            continue;
        uint32_t units = change->restock ? 0 : order->order.qty;
        if (now.refunded[i].units != units)
            promise_break("order %llu was refunded, and %u of its %u units stayed sold, not %u",
                          (unsigned long long)change->record.order_id, now.refunded[i].units,
                          order->order.qty, units);
        return;
    }
}

void promise_refund(const struct stock_status_change *change, int64_t since_ns)
{
    enum ledger_payment_state state = change->payment.state;
    unsigned long long id = change->record.order_id;
    story("  refund of %s of order %llu%s, keep %u: %s", change->payment.ref, id,
          change->restock ? ", restocked" : "", change->keep, result_name(change->result));
    const struct row *row = row_of_payment(change->record.order_id, change->payment.ref);
    const struct version *disk = on_disk(row);
    if (change->result == STOCK_STATE_NO_PAYMENT && disk && row->committed_ns < since_ns)
        promise_break("payment %s of order %llu is told as unknown, and is there",
                      change->payment.ref, id);
    if (change->result == STOCK_STATE_REFUSED && change->keep == 0 &&
        (!row || row->was.payment.state != LEDGER_PAYMENT_FAILED))
        promise_break("the refund of %s of order %llu was refused", change->payment.ref, id);
    if (change->result != STOCK_STATE_OK)
        return;
    if (state != (change->keep > 0 ? LEDGER_PAYMENT_TAKEN : LEDGER_PAYMENT_REFUNDED))
        promise_break("payment %s of order %llu was to be refunded, and is told as %s",
                      change->payment.ref, id, ledger_payment_state_name(state));
    note_told(change, since_ns);
    promise_status(change->record.order_id, change->record.status);
    if (change->keep > 0)
        note_bound((struct bound){.order_id = change->record.order_id, .keep = change->keep});
    tally(change->keep > 0 ? "order refunded in part"
          : change->moved  ? "order refunded"
                           : "payment refunded");
    if (change->moved && !change->doubt && change->keep == 0)
        check_restock(change);
}

void promise_unpay(const struct stock_status_change *change, int64_t since_ns)
{
    unsigned long long id = change->record.order_id;
    story("  payment %s of order %llu has failed: %s", change->payment.ref, id,
          result_name(change->result));
    const struct row *row = row_of_payment(change->record.order_id, change->payment.ref);
    const struct version *disk = on_disk(row), *order = order_now(change->record.order_id);
    if (change->result == STOCK_STATE_NO_PAYMENT && disk && row->committed_ns < since_ns)
        promise_break("payment %s of order %llu is told as unknown, and is there",
                      change->payment.ref, id);
    if (change->result == STOCK_STATE_REFUSED && order && is_present(order) && row &&
        row->was.payment.state == LEDGER_PAYMENT_TAKEN && row->changed_ns < since_ns)
        promise_break("payment %s of order %llu pays it, and was not to fail", change->payment.ref,
                      id);
    if (change->result != STOCK_STATE_OK)
        return;
    if (change->payment.state != LEDGER_PAYMENT_FAILED)
        promise_break("payment %s of order %llu has failed, and is told as %s", change->payment.ref,
                      id, ledger_payment_state_name(change->payment.state));
    note_told(change, since_ns);
    promise_status(change->record.order_id, change->record.status);
}

void promise_extend(const struct stock_status_change *change, int64_t since_ns)
{
    const struct version *order = order_now(change->record.order_id);
    const struct version *sale = order ? sale_now(order->sku) : NULL;
    unsigned long long id = change->record.order_id;
    const struct ledger_extension *extension = &change->extension;
    story("  order %llu is to be extended: %s", id, result_name(change->result));
    if (change->result == STOCK_STATE_OK)
        note_bound((struct bound){.order_id = change->record.order_id,
                                  .expires_ms = extension->expires_ms});
    if (change->result == STOCK_STATE_REFUSED && order && sale && is_present(order) &&
        order->order.status == LEDGER_RESERVED && !is_overdue(order) && !has_stepped() &&
        row_of_order(change->record.order_id)->changed_ns < since_ns &&
        !chance_struck_kind(FAULT_LEDGER_CRASH))
        promise_break("order %llu was not extended, and is reserved", id);
    if (change->result != STOCK_STATE_HOLD_LIMIT)
        return;
    tally("hold limit reached");
    if (extension->expires_ms <= extension->latest_ms)
        promise_break("order %llu was not extended to a time that is allowed", id);
    int64_t hold_ms = sale ? (int64_t)sale->sale.settings.hold_max_s * 1000 : 0;
    if (order && hold_ms > 0 && !promise_settings_changed(order->sku, since_ns) &&
        extension->latest_ms < order->order.created_ms + hold_ms)
        promise_break("order %llu may be held for longer than is told", id);
}

/* ---- the rest ---- */

void promise_no_refunds(const char *sku, int64_t since_ns)
{
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_DUE, i)); i++)
        if (row->was.there && !row->was.payment.elsewhere && row->committed_ns < since_ns &&
            strcmp(row->was.sku, sku) == 0)
            promise_break("%s was retired, and payment %s of order %llu is due", sku, row->was.key,
                          (unsigned long long)row->was.payment.order_id);
}

void promise_refunds_due(const char *sku)
{
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_PAYMENT, i)); i++) {
        const struct version *order = row->was.there ? order_now(row->was.payment.order_id) : NULL;
        if (order && strcmp(order->sku, sku) == 0 && !has_paid(row->was.payment.outcome))
            return;
    }
    if (!chance_struck_kind(FAULT_LEDGER_CRASH))
        promise_break("%s was not retired for refunds that are due, and there was none", sku);
}

uint64_t promise_pick_status(struct chance *chance, enum ledger_status status)
{
    uint32_t pick = chance_below(chance, 1u << 16);
    const struct row *row;
    size_t count = 0;
    while (table_row(TABLE_ORDER, count))
        count++;
    for (size_t i = 0; i < count; i++) {
        row = table_row(TABLE_ORDER, (pick + i) % count);
        if (row->was.there && row->was.order.status == status)
            return row->was.order.order_id;
    }
    return 1;
}

bool promise_pick_payment(struct chance *chance, uint64_t *order_id_out, const char **ref_out)
{
    uint32_t pick = chance_below(chance, 1u << 16);
    if (now.asked_count == 0)
        return false;
    const struct asked_payment *asked = &now.asked[pick % now.asked_count];
    *order_id_out = asked->order_id;
    *ref_out = asked->ref;
    return true;
}

bool promise_is_decided(uint64_t order_id, const char *ref)
{
    const struct row *row = row_of_payment(order_id, ref);
    return row && row->was.there;
}

uint64_t promise_expired(const char *sku, bool present)
{
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++)
        if (row->was.there && row->was.order.status == LEDGER_EXPIRED &&
            is_present(&row->was) == present && strcmp(row->was.sku, sku) == 0)
            return row->was.order.order_id;
    return 0;
}

void promise_pay_end(void)
{
    const struct row *row;
    for (size_t i = 0; i < now.told_count; i++)
        check_on_disk(&now.told[i]);
    for (size_t i = 0; i < now.asked_count; i++)
        check_nothing_done(&now.asked[i]);
    for (size_t i = 0; i < now.bound_count; i++)
        check_bound(&now.bounds[i]);
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++)
        if (row->was.there)
            check_payments(row->was.order.order_id);
}
