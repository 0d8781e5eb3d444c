/* Payments and extended reservations in the simulated ledger: sql/payments/payments.h. */
#include "test/simulate/ledger/ledger_pay.h"

#include <assert.h>
#include <string.h>

#include "test/simulate/ledger/ledger_events.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/ledger/ledger_text.h"
#include "test/simulate/story.h"

/* ---- rows ---- */

static enum db_result insert(struct ledger *ledger, enum table table, uint64_t order_id,
                             const struct ledger_payment *payment, const char *sku)
{
    const struct row_key key = {.order_id = order_id, .key = payment->ref};
    struct row *row;
    enum db_result result = session_lock_key(ledger, table, &key, &row);
    if (result != DB_OK || row->now.there)
        return result != DB_OK ? result : DB_DUPLICATE;
    struct version *version = txn_change(ledger->txn, row);
    *version = (struct version){.there = true, .payment = {.order_id = order_id}};
    text_copy(version->sku, sku);
    text_copy(version->key, payment->ref);
    if (table == TABLE_PAYMENT) {
        version->payment.state = payment->state;
        version->payment.outcome = payment->outcome;
    }
    return DB_OK;
}

enum db_result payment_insert(struct ledger *ledger, uint64_t order_id,
                              const struct ledger_payment *payment)
{
    return insert(ledger, TABLE_PAYMENT, order_id, payment, "");
}

struct row *payment_next(struct ledger *ledger, uint64_t order_id)
{
    struct row *row, *next = NULL;
    for (size_t i = 0; (row = table_row(TABLE_PAYMENT, i)); i++)
        if (row->was.there && row->was.payment.order_id == order_id &&
            row->was.payment.state == LEDGER_PAYMENT_DUE &&
            (!row->owner || row->owner == ledger->txn) &&
            (!next || strcmp(row->was.key, next->was.key) < 0))
            next = row;
    return next && txn_take(ledger->txn, next) ? next : NULL;
}

const char *payment_taken(const struct ledger *ledger, uint64_t order_id)
{
    struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_PAYMENT, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (seen->there && seen->payment.order_id == order_id &&
            seen->payment.state == LEDGER_PAYMENT_TAKEN)
            return seen->key;
    }
    return NULL;
}

enum db_result payment_move(struct ledger *ledger, uint64_t order_id, const char *ref,
                            enum ledger_payment_state from, enum ledger_payment_state to)
{
    struct row *row = row_of_payment(order_id, ref);
    enum db_result result = row ? session_lock(ledger, row) : DB_NO;
    if (result != DB_OK)
        return result;
    if (!row->now.there || row->now.payment.state != from)
        return DB_NO;
    txn_change(ledger->txn, row)->payment.state = to;
    row = row_of_due(order_id, ref);
    if (!row || from != LEDGER_PAYMENT_DUE)
        return DB_OK;
    result = session_lock(ledger, row);
    if (result == DB_OK && row->now.there)
        txn_change(ledger->txn, row)->there = false;
    return result;
}

enum db_result expiry_write(struct ledger *ledger, const struct version *order)
{
    uint64_t order_id = order->order.order_id;
    const struct row_key key = {.order_id = order_id, .moment_ms = version_due_ms(order)};
    struct row *range;
    enum db_result result = session_lock_key(ledger, TABLE_EXPIRY, &key, &range);
    if (result != DB_OK)
        return result;
    struct version *version = txn_change(ledger->txn, range);
    uint64_t last_id = version->there ? version->expiry.last_id : 0;
    version->there = true;
    version->expiry = (struct expiry_row){.expires_ms = key.moment_ms,
                                          .first_id = order_id,
                                          .last_id = last_id > order_id ? last_id : order_id};
    return DB_OK;
}

/* ---- what a call names ---- */

struct paying {
    struct ledger_record *const *records;
    struct ledger_payment *const *payments;
    struct ledger_extension *const *extensions;
    size_t count;
    size_t order[LEDGER_ORDERS_MAX]; /* the places by order id, equal ids as they were given */
    enum ledger_standing standing[LEDGER_ORDERS_MAX];
};

static struct paying paying_of(struct ledger_record *const *records, size_t count)
{
    struct paying paying = {.records = records, .count = count};
    assert(count > 0 && count <= LEDGER_ORDERS_MAX);
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && records[paying.order[at - 1]]->order_id > records[i]->order_id; at--)
            paying.order[at] = paying.order[at - 1];
        paying.order[at] = i;
    }
    return paying;
}

/* Returns the payment before, if any, of the same order and name. */
static const struct ledger_payment *earlier(const struct paying *paying, size_t at)
{
    const struct ledger_payment *payment = paying->payments[at];
    for (size_t i = 0; i < at; i++)
        if (paying->records[i]->order_id == paying->records[at]->order_id &&
            ledger_payment_named(payment) && ledger_payment_named(paying->payments[i]) &&
            strcmp(paying->payments[i]->ref, payment->ref) == 0)
            return paying->payments[i];
    return NULL;
}

/* The row of an order that this transaction has locked, else NULL. */
static struct row *own_row(const struct ledger *ledger, const struct ledger_record *record)
{
    struct row *row = row_of_order(record->order_id);
    return row && row->owner == ledger->txn && row->now.there ? row : NULL;
}

/* ---- the statements ---- */

/* Locks the orders, and with each its sale, waiting for none. */
static enum db_result lock_orders(struct ledger *ledger, struct paying *paying)
{
    enum db_result result = session_send(ledger, false);
    if (result != DB_OK)
        return result;
    for (size_t i = 0; i < paying->count; i++) {
        size_t at = paying->order[i];
        struct row *row = row_of_order(paying->records[at]->order_id);
        if (!row || !row->was.there || !txn_take(ledger->txn, row))
            continue;
        paying->standing[at] = version_standing(&row->now, ledger->txn);
    }
    return session_answer(ledger, DB_OK);
}

static enum db_result look_up(struct ledger *ledger, void *context)
{
    const struct paying *paying = context;
    for (size_t i = 0; i < paying->count; i++) {
        struct ledger_payment *payment = paying->payments[i];
        const struct row *row = ledger_payment_named(payment)
                                    ? row_of_payment(paying->records[i]->order_id, payment->ref)
                                    : NULL;
        const struct version *seen = row ? row_seen(row, ledger->txn) : NULL;
        if (!seen || !seen->there)
            continue;
        payment->state = seen->payment.state;
        payment->outcome = seen->payment.outcome;
    }
    return DB_OK;
}

/* True when there is a name to look for. */
static bool clear_payments(const struct paying *paying)
{
    bool any = false;
    for (size_t i = 0; i < paying->count; i++) {
        struct ledger_payment *payment = paying->payments[i];
        payment->state = LEDGER_PAYMENT_NONE;
        payment->outcome = LEDGER_OUTCOME_NONE;
        payment->moved = payment->told = false;
        if (payment->late != LEDGER_LATE_NO_UNITS)
            payment->late = LEDGER_LATE_ASKED;
        any |= ledger_payment_named(payment);
    }
    return any;
}

static enum db_result find_payments(struct ledger *ledger, const struct paying *paying)
{
    if (!clear_payments(paying))
        return DB_OK;
    enum db_result result = session_send(ledger, false);
    if (result != DB_OK)
        return result;
    return session_answer(ledger, look_up(ledger, (void *)paying));
}

static enum db_result read_records(struct ledger *ledger, void *context)
{
    const struct paying *paying = context;
    bool for_payment = ledger->in_run;
    for (size_t i = 0; i < paying->count; i++)
        record_of_row(paying->records[i], row_of_order(paying->records[i]->order_id), ledger->txn,
                      for_payment);
    return DB_OK;
}

/* Ends the statement that has made the changes, and confirms what others have committed. */
static enum db_result end(struct ledger *ledger, const struct paying *paying, bool wrote,
                          bool relies)
{
    read_records(ledger, (void *)paying);
    for (size_t i = 0; i < paying->count && paying->payments; i++)
        relies |= !ledger_payment_named(paying->payments[i]) &&
                  ledger_status_changed(paying->records[i]->status);
    enum db_result result = session_answer(ledger, DB_OK);
    return result == DB_OK && relies && !wrote ? session_confirm(ledger) : result;
}

/* ---- the decision ---- */

static enum ledger_payment_outcome outcome_of(enum ledger_status status,
                                              enum ledger_standing standing, enum ledger_late late)
{
    bool over =
        standing == LEDGER_OVER || (late == LEDGER_LATE_NO_UNITS && status == LEDGER_EXPIRED);
    if (status == LEDGER_PAID)
        return LEDGER_ALREADY_PAID;
    if (status == LEDGER_RESERVED && standing == LEDGER_IN_ROUND)
        return LEDGER_IN_TIME;
    if ((status != LEDGER_RESERVED && status != LEDGER_EXPIRED) || over)
        return LEDGER_TOO_LATE;
    return status == LEDGER_RESERVED && standing == LEDGER_OVERDUE ? LEDGER_RETAKEN
                                                                   : LEDGER_OUTCOME_NONE;
}

static void pay_order(struct ledger *ledger, struct row *row, struct ledger_payment *payment)
{
    order_becomes(ledger->txn, row, LEDGER_PAID);
    payment->moved = true;
}

/* An earlier payment of its order needs units. */
static bool needs_units(const struct paying *paying, size_t entry)
{
    uint64_t order_id = paying->records[paying->order[entry]]->order_id;
    for (size_t i = entry; i > 0 && paying->records[paying->order[i - 1]]->order_id == order_id;
         i--)
        if (paying->payments[paying->order[i - 1]]->late == LEDGER_LATE_NEEDS_UNITS)
            return true;
    return false;
}

static void decide(struct ledger *ledger, const struct paying *paying, size_t entry)
{
    size_t at = paying->order[entry];
    struct ledger_payment *payment = paying->payments[at];
    struct row *row = own_row(ledger, paying->records[at]);
    if (!row || needs_units(paying, entry)) {
        payment->state = LEDGER_PAYMENT_NONE;
        return;
    }
    enum ledger_status status = row->now.order.status;
    enum ledger_standing standing = paying->standing[at];
    if (!ledger_payment_named(payment)) {
        if (status == LEDGER_RESERVED && standing == LEDGER_IN_ROUND)
            pay_order(ledger, row, payment);
        return;
    }
    if (payment->state != LEDGER_PAYMENT_NONE)
        return;
    const struct ledger_payment *twin = earlier(paying, at);
    if (twin) {
        payment->state = twin->state;
        payment->outcome = twin->outcome;
        return;
    }
    payment->outcome = outcome_of(status, standing, payment->late);
    payment->told = payment->outcome != LEDGER_OUTCOME_NONE;
    if (payment->outcome == LEDGER_IN_TIME || payment->outcome == LEDGER_RETAKEN) {
        payment->state = LEDGER_PAYMENT_TAKEN;
        pay_order(ledger, row, payment);
    } else if (payment->told) {
        payment->state = LEDGER_PAYMENT_DUE;
    } else if (status == LEDGER_EXPIRED) {
        payment->late = LEDGER_LATE_NEEDS_UNITS;
    }
}

static enum db_result insert_told(struct ledger *ledger, const struct paying *paying)
{
    enum db_result result = DB_OK;
    for (size_t i = 0; i < paying->count && result == DB_OK; i++) {
        const struct ledger_payment *payment = paying->payments[i];
        uint64_t order_id = paying->records[i]->order_id;
        if (payment->told)
            result = payment_insert(ledger, order_id, payment);
        if (payment->told && result == DB_OK && payment->state == LEDGER_PAYMENT_DUE)
            result = insert(ledger, TABLE_DUE, order_id, payment, row_of_order(order_id)->now.sku);
    }
    return result;
}

/* The orders that this call pays, and the payments that it makes due. */
static void write_events(struct ledger *ledger, const struct paying *paying)
{
    struct event_lines paid = {.type = LEDGER_EVENT_PAID}, due = {.type = LEDGER_EVENT_REFUND_DUE};
    for (size_t i = 0; i < paying->count; i++) {
        const struct ledger_payment *payment = paying->payments[i];
        if (payment->moved)
            event_add(&paid, &own_row(ledger, paying->records[i])->now, payment->ref);
        if (payment->told && payment->state == LEDGER_PAYMENT_DUE)
            event_add(&due, &own_row(ledger, paying->records[i])->now, payment->ref);
    }
    event_write(ledger, &paid);
    event_write(ledger, &due);
}

/* ---- ledger_pay ---- */

/* Four statements: lock; look the payments up; change and read; confirm, if nothing has changed. */
static enum db_result pay_body(struct ledger *ledger, void *context)
{
    struct paying *paying = context;
    bool writes = false, relies = false;
    enum db_result result = lock_orders(ledger, paying);
    if (result == DB_OK)
        result = find_payments(ledger, paying);
    if (result != DB_OK)
        return result;
    for (size_t i = 0; i < paying->count; i++)
        decide(ledger, paying, i);
    for (size_t i = 0; i < paying->count; i++)
        writes |= paying->payments[i]->moved || paying->payments[i]->told;
    result = session_send(ledger, writes);
    if (result == DB_OK)
        result = insert_told(ledger, paying);
    if (result == DB_OK)
        write_events(ledger, paying);
    for (size_t i = 0; i < paying->count; i++)
        relies |= paying->payments[i]->state != LEDGER_PAYMENT_NONE && !paying->payments[i]->told;
    return result == DB_OK ? end(ledger, paying, writes, relies) : session_answer(ledger, result);
}

static void tell_payments(const struct paying *paying, enum ledger_result result)
{
    for (size_t i = 0; i < paying->count && result == LEDGER_OK && story_told; i++) {
        const struct ledger_payment *payment = paying->payments[i];
        if (ledger_payment_named(payment))
            story("    ledger: payment %s of order %llu: %s, %s%s%s", payment->ref,
                  (unsigned long long)paying->records[i]->order_id,
                  ledger_payment_state_name(payment->state),
                  ledger_payment_outcome_name(payment->outcome), payment->told ? ", told now" : "",
                  payment->late == LEDGER_LATE_NEEDS_UNITS ? ", needs units" : "");
    }
}

enum ledger_result ledger_pay(struct ledger *ledger, struct ledger_record *const *records,
                              struct ledger_payment *const *payments, size_t count)
{
    struct paying paying = paying_of(records, count);
    paying.payments = payments;
    enum ledger_result result = session_result(session_run(ledger, pay_body, &paying));
    tell_payments(&paying, result);
    return result;
}

/* ---- refunds ---- */

enum ledger_result ledger_payments_find(struct ledger *ledger, struct ledger_record *const *records,
                                        struct ledger_payment *const *payments, size_t count)
{
    struct paying paying = paying_of(records, count);
    paying.payments = payments;
    bool named = clear_payments(&paying);
    if (named && session_read(ledger, look_up, &paying, false) != LEDGER_OK)
        return LEDGER_FAILED;
    uint64_t connection = ledger_connection(ledger);
    if (session_read(ledger, read_records, &paying, false) != LEDGER_OK)
        return LEDGER_FAILED;
    return !named || ledger_connection(ledger) == connection ? LEDGER_OK : LEDGER_FAILED;
}

/* Locks the payment and reads it. */
static enum db_result lock_payment(struct ledger *ledger, const struct paying *paying, size_t at)
{
    struct ledger_payment *payment = paying->payments[at];
    struct row *row = row_of_payment(paying->records[at]->order_id, payment->ref);
    enum db_result result = row ? session_lock(ledger, row) : DB_OK;
    if (!row || result != DB_OK || !row->now.there)
        return result;
    payment->state = row->now.payment.state;
    payment->outcome = row->now.payment.outcome;
    payment->told = payment->state == LEDGER_PAYMENT_DUE && !earlier(paying, at);
    return DB_OK;
}

static enum db_result refund_one(struct ledger *ledger, uint64_t order_id, const char *ref)
{
    struct row *row = row_of_payment(order_id, ref);
    enum db_result result = DB_OK;
    if (row && row->now.there && row->now.payment.state == LEDGER_PAYMENT_DUE)
        txn_change(ledger->txn, row)->payment.state = LEDGER_PAYMENT_REFUNDED;
    row = row_of_due(order_id, ref);
    if (row && result == DB_OK)
        result = session_lock(ledger, row);
    if (row && result == DB_OK && row->now.there)
        txn_change(ledger->txn, row)->there = false;
    return result;
}

static enum db_result refund_body(struct ledger *ledger, void *context)
{
    struct paying *paying = context;
    clear_payments(paying);
    enum db_result result = session_send(ledger, true);
    for (size_t i = 0; i < paying->count && result == DB_OK; i++)
        result = lock_payment(ledger, paying, i);
    if (result == DB_OK)
        result = session_answer(ledger, DB_OK);
    if (result == DB_OK)
        result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    for (size_t i = 0; i < paying->count && result == DB_OK; i++)
        result = refund_one(ledger, paying->records[i]->order_id, paying->payments[i]->ref);
    if (result == DB_OK)
        ledger->txn->wrote = true; /* as confirmed, if others have refunded all */
    return session_answer(ledger, result);
}

enum ledger_result ledger_refund(struct ledger *ledger, struct ledger_record *const *records,
                                 struct ledger_payment *const *payments, size_t count)
{
    struct paying paying = paying_of(records, count);
    paying.payments = payments;
    enum ledger_result result = session_result(session_run(ledger, refund_body, &paying));
    for (size_t i = 0; i < count && result == LEDGER_OK; i++)
        if (payments[i]->state == LEDGER_PAYMENT_DUE)
            payments[i]->state = LEDGER_PAYMENT_REFUNDED;
    for (size_t i = 0; i < count; i++)
        story("    ledger: payment %s of order %llu is refunded: %s", payments[i]->ref,
              (unsigned long long)records[i]->order_id, result == LEDGER_OK ? "done" : "not done");
    return result;
}

/* ---- extended reservations ---- */

static enum db_result extend_order(struct ledger *ledger, struct row *row, int64_t expires_ms)
{
    struct event_lines lines = {.type = LEDGER_EVENT_CHANGED};
    order_becomes(ledger->txn, row, row->now.order.status);
    row->now.order.expires_ms = expires_ms;
    enum db_result result = expiry_write(ledger, &row->now);
    if (result != DB_OK)
        return result;
    event_add(&lines, &row->now, NULL);
    event_write(ledger, &lines);
    return DB_OK;
}

static int64_t latest_ms(const struct row *row, const struct txn *txn)
{
    const struct order_row *order = &row->now.order;
    const struct row *sale = row_of_sale(row->now.sku);
    if (!sale || !row_seen(sale, txn)->there || order->expires_ms == 0)
        return 0;
    uint32_t hold_max_s = row_seen(sale, txn)->sale.settings.hold_max_s;
    int64_t latest = order->created_ms + (int64_t)hold_max_s * 1000;
    return hold_max_s == 0 || latest < order->expires_ms ? order->expires_ms : latest;
}

/* `latest`: as it was before the first change of the order. */
static enum db_result decide_extension(struct ledger *ledger, const struct paying *paying,
                                       size_t at, int64_t latest)
{
    struct ledger_extension *extension = paying->extensions[at];
    struct row *row = own_row(ledger, paying->records[at]);
    const struct order_row *order = row ? &row->now.order : NULL;
    bool later = order && order->status == LEDGER_RESERVED &&
                 paying->standing[at] == LEDGER_IN_ROUND && order->expires_ms != 0 &&
                 extension->expires_ms > order->expires_ms;
    extension->latest_ms = latest;
    extension->limited = later && extension->expires_ms > latest;
    extension->moved = later && !extension->limited;
    return extension->moved ? extend_order(ledger, row, extension->expires_ms) : DB_OK;
}

static enum db_result extend_body(struct ledger *ledger, void *context)
{
    struct paying *paying = context;
    int64_t latest[LEDGER_ORDERS_MAX];
    bool writes = false;
    enum db_result result = lock_orders(ledger, paying);
    if (result != DB_OK)
        return result;
    for (size_t i = 0; i < paying->count; i++) {
        const struct row *row = own_row(ledger, paying->records[i]);
        latest[i] = row ? latest_ms(row, ledger->txn) : 0;
    }
    for (size_t i = 0; i < paying->count && result == DB_OK; i++) {
        size_t at = paying->order[i];
        result = decide_extension(ledger, paying, at, latest[at]);
        writes |= paying->extensions[at]->moved;
    }
    if (result == DB_OK)
        result = session_send(ledger, writes);
    return result == DB_OK ? end(ledger, paying, writes, true) : result;
}

enum ledger_result ledger_extend(struct ledger *ledger, struct ledger_record *const *records,
                                 struct ledger_extension *const *extensions, size_t count)
{
    struct paying paying = paying_of(records, count);
    paying.extensions = extensions;
    enum ledger_result result = session_result(session_run(ledger, extend_body, &paying));
    for (size_t i = 0; i < count && result == LEDGER_OK; i++)
        if (extensions[i]->moved)
            story("    ledger: order %llu is extended to %s",
                  (unsigned long long)records[i]->order_id, records[i]->expires_at);
    return result;
}
