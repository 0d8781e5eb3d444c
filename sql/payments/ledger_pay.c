/* Pays orders, and lets them be held for longer.
 *
 *   lock the orders, skipping those that somebody else has locked ─► look their payments up
 *     ─► decide ─► UPDATE orders · INSERT payments · SELECT all ─► commit
 *
 * A reset makes the sale's orders not payable: the payment holds the sale's row, shared, until it
 * is committed, so no order of an ended round slips in.
 *
 * why_skip_locked: an order that is being cancelled, or whose other payment hangs, must not keep
 * hundreds of payments waiting, nor may a sale that is being changed; and a transaction that waits
 * for nobody takes part in no deadlock. Nor does it lock ids that no order has, which would keep
 * new orders from being written.
 *
 * why_under_the_lock: whoever writes a payment of an order, or takes its units again, holds the
 * order's row. So a payment that is not found under that lock was never told.
 *
 * why_not_all: an order that can be paid has hardly ever been told a payment, since that would have
 * paid it. So its payments are looked up only if the INSERT then finds one after all: the order was
 * overdue, and the server's clock has stepped back. */
#include "sql/payments/payments.h"

#include <string.h>

#include "sql/events/event_line.h"
#include "sql/ledger/ledger_query.h"
#include "sql/orders/commit_rows.h"
#include "sql/orders/order_set.h"

/* An order as the lock has found it; it follows the decisions. */
struct locked {
    bool mine;                 /* it is locked */
    bool unnamed;              /* a payment without a name has paid it */
    enum ledger_status status; /* as it will be */
    enum ledger_standing standing;
    int64_t expires_ms, latest_ms; /* asked for an extension only; 0: never */
    char sku[IDENTIFIER_SIZE];
};

struct paying {
    struct ledger *ledger;
    struct order_set set;
    struct ledger_payment *const *payments;  /* at the records' places */
    bool looks_all;                          /* for payments of orders that can be paid, too */
    struct locked locked[LEDGER_ORDERS_MAX]; /* at the first entry of each id */
};

static void paying_init(struct paying *paying, struct ledger *ledger,
                        struct ledger_record *const *records,
                        struct ledger_payment *const *payments, size_t count)
{
    paying->ledger = ledger; /* the list of locked orders stays unset: it is large */
    paying->payments = payments;
    paying->looks_all = true;
    order_set_init(&paying->set, records, count);
}

static struct ledger_payment *payment_at(const struct paying *paying, size_t entry)
{
    return paying->payments[paying->set.entries[entry].place];
}

/* Returns the entry before, if any, of the same order and name. */
static const struct ledger_payment *earlier(const struct paying *paying, size_t entry)
{
    const struct ledger_payment *payment = payment_at(paying, entry);
    for (size_t i = entry; order_set_repeats(&paying->set, i); i--) {
        const struct ledger_payment *other = payment_at(paying, i - 1);
        if (ledger_payment_named(payment) && ledger_payment_named(other) &&
            strcmp(other->ref, payment->ref) == 0)
            return other;
    }
    return NULL;
}

static bool has_names(const struct paying *paying)
{
    bool named = false;
    for (size_t i = 0; i < paying->set.count; i++)
        named |= ledger_payment_named(paying->payments[i]);
    return named;
}

/* ---- what is there ---- */

/* The latest moment to which an order may be held. */
#define LATEST                                                                                     \
    "(SELECT GREATEST(o.expires_at,COALESCE(o.created_at+INTERVAL s.hold_max_s SECOND,"            \
    "o.expires_at))FROM sale s WHERE s.sku=o.sku)"

#define UNNAMED                                                                                    \
    "(o.status='paid' AND NOT EXISTS(SELECT 1 FROM payment p WHERE p.order_id=o.order_id AND "     \
    "p.state='taken'))"

/* What the caller of lock_orders asks for. */
enum question { PAYMENTS, HOLDS };

static void text_lock(struct sql_text *sql, const struct order_set *set, enum question question)
{
    sql_begin(sql, "SELECT o.order_id,o.status,%-s,o.sku,%-s FROM orders o FORCE INDEX(PRIMARY)",
              ledger_status_standing(),
              question == HOLDS ? LEDGER_MS_OF("o.expires_at") "," LEDGER_MS_OF(LATEST) : UNNAMED);
    sql_printf(sql, "WHERE o.order_id IN");
    order_set_ids(set, sql);
    sql_printf(sql, "FOR UPDATE SKIP LOCKED");
}

static void read_locked(struct locked *order, char **row, enum question question)
{
    *order = (struct locked){.status = row[1] ? ledger_status_of(row[1]) : LEDGER_STATUSES,
                             .standing = (enum ledger_standing)ledger_u32(row[2])};
    order->mine = order->status != LEDGER_STATUSES && ledger_identifier_read(order->sku, row[3]);
    order->unnamed = question == PAYMENTS && ledger_u32(row[4]) != 0;
    order->expires_ms = question == HOLDS ? (int64_t)ledger_u64(row[4]) : 0;
    order->latest_ms = question == HOLDS ? (int64_t)ledger_u64(row[5]) : 0;
}

static enum db_result lock_orders(struct ledger *ledger, const struct order_set *set,
                                  struct locked locked[LEDGER_ORDERS_MAX], enum question question)
{
    text_lock(&ledger->sql, set, question);
    enum db_result result = ledger_query(ledger);
    for (size_t i = 0; i < set->count; i++)
        locked[i].mine = locked[i].unnamed = false;
    for (char **row = result == DB_OK ? db_row(ledger->db) : NULL; row; row = db_row(ledger->db)) {
        size_t entry = order_set_find(set, ledger_u64(row[0]));
        if (entry < set->count) /* else it was not asked for */
            read_locked(&locked[entry], row, question);
    }
    return result;
}

/* Sets the state and outcome of every entry of that order and name. */
static void set_known(const struct paying *paying, char **row)
{
    size_t entry = order_set_find(&paying->set, ledger_u64(row[0]));
    bool first = true;
    for (; entry < paying->set.count && row[1] && (first || order_set_repeats(&paying->set, entry));
         entry++, first = false) {
        struct ledger_payment *payment = payment_at(paying, entry);
        if (!ledger_payment_named(payment) || strcmp(payment->ref, row[1]) != 0)
            continue;
        payment->state = (enum ledger_payment_state)ledger_u32(row[2]);
        payment->outcome = (enum ledger_payment_outcome)ledger_u32(row[3]);
    }
}

static bool is_payable(const struct locked *order)
{
    return order->status == LEDGER_RESERVED && order->standing == LEDGER_IN_ROUND;
}

/* Appends the names of the payments to look up, with their orders, in parentheses. False: there are
 * none. The first stands twice: for an UPDATE or DELETE with one pair alone MariaDB reads the whole
 * table (findings/mariadb_one_pair_scans.sh). */
static bool text_names(const struct paying *paying, struct sql_text *sql)
{
    bool any = false;
    for (size_t i = 0; i < paying->set.count; i++) {
        const struct ledger_payment *payment = payment_at(paying, i);
        const struct locked *order = &paying->locked[order_set_first(&paying->set, i)];
        if (!ledger_payment_named(payment) ||
            (!paying->looks_all && (!order->mine || is_payable(order))))
            continue;
        uint64_t order_id = paying->set.entries[i].order_id;
        if (!any)
            sql_printf(sql, "((%ju,%s)", order_id, payment->ref);
        sql_printf(sql, ",(%ju,%s)", order_id, payment->ref);
        any = true;
    }
    sql_append(sql, ")", 1);
    return any;
}

/* `tail`: how they are locked, or "". */
static enum db_result find_payments(struct paying *paying,
                                    enum db_result (*query)(struct ledger *ledger),
                                    const char *tail)
{
    struct ledger *ledger = paying->ledger;
    for (size_t i = 0; i < paying->set.count; i++) {
        struct ledger_payment *payment = payment_at(paying, i);
        payment->state = LEDGER_PAYMENT_NONE;
        payment->outcome = LEDGER_OUTCOME_NONE;
        payment->moved = payment->told = payment->unnamed = false;
        if (payment->late != LEDGER_LATE_NO_UNITS)
            payment->late = LEDGER_LATE_ASKED;
    }
    sql_begin(&ledger->sql, "SELECT order_id,payment_ref,state+0,outcome+0 FROM payment "
                            "FORCE INDEX(PRIMARY)WHERE(order_id,payment_ref)IN");
    if (!text_names(paying, &ledger->sql))
        return DB_OK;
    sql_printf(&ledger->sql, "%-s", tail);
    enum db_result result = query(ledger);
    for (char **row = result == DB_OK ? db_row(ledger->db) : NULL; row; row = db_row(ledger->db))
        set_known(paying, row);
    return result;
}

/* ---- the decision ---- */

static enum ledger_payment_outcome outcome_of(const struct locked *order,
                                              const struct ledger_payment *payment)
{
    bool over = order->standing == LEDGER_OVER;
    switch (order->status) {
    case LEDGER_RESERVED:
        return order->standing == LEDGER_IN_ROUND  ? LEDGER_IN_TIME
               : over                              ? LEDGER_TOO_LATE
               : order->standing == LEDGER_OVERDUE ? LEDGER_RETAKEN
                                                   : LEDGER_OUTCOME_NONE;
    case LEDGER_EXPIRED:
        over |= payment->late == LEDGER_LATE_NO_UNITS;
        return over ? LEDGER_TOO_LATE : LEDGER_OUTCOME_NONE;
    case LEDGER_PAID:
        return LEDGER_ALREADY_PAID;
    default:
        return LEDGER_TOO_LATE;
    }
}

static void pay_order(struct locked *order, struct ledger_payment *payment)
{
    payment->moved = true;
    order->status = LEDGER_PAID;
}

static void decide_named(struct locked *order, struct ledger_payment *payment)
{
    payment->outcome = outcome_of(order, payment);
    payment->told = payment->outcome != LEDGER_OUTCOME_NONE;
    if (payment->outcome == LEDGER_IN_TIME || payment->outcome == LEDGER_RETAKEN) {
        payment->state = LEDGER_PAYMENT_TAKEN;
        pay_order(order, payment);
    } else if (payment->told) {
        payment->state = LEDGER_PAYMENT_DUE;
    } else if (order->status == LEDGER_EXPIRED) {
        payment->late = LEDGER_LATE_NEEDS_UNITS;
        order->mine = false; /* its other payments wait for this one */
    }
}

static void decide(struct paying *paying)
{
    for (size_t i = 0; i < paying->set.count; i++) {
        struct locked *order = &paying->locked[order_set_first(&paying->set, i)];
        struct ledger_payment *payment = payment_at(paying, i);
        const struct ledger_payment *twin = earlier(paying, i);
        if (!order->mine) {
            payment->state = LEDGER_PAYMENT_NONE; /* somebody may be changing it */
        } else if (!ledger_payment_named(payment)) {
            if (is_payable(order))
                pay_order(order, payment);
            order->unnamed |= payment->moved;
        } else if (twin) {
            payment->state = twin->state;
            payment->outcome = twin->outcome;
        } else if (payment->state == LEDGER_PAYMENT_NONE) {
            decide_named(order, payment);
        }
        payment->unnamed = order->unnamed;
    }
}

/* ---- the changes ---- */

static bool text_orders(const struct paying *paying, struct sql_text *sql)
{
    bool any = false;
    for (size_t i = 0; i < paying->set.count; i++) {
        if (!payment_at(paying, i)->moved)
            continue;
        if (!any)
            sql_printf(sql,
                       "UPDATE orders FORCE INDEX(PRIMARY)SET status=%s," LEDGER_VERSION_NEXT
                       " WHERE order_id IN",
                       ledger_status_name(LEDGER_PAID));
        sql_printf(sql, any ? ",%ju" : "(%ju", paying->set.entries[i].order_id);
        any = true;
    }
    if (any)
        sql_append(sql, ");", 2);
    return any;
}

static bool is_due(const struct ledger_payment *payment)
{
    return payment->told && payment->state == LEDGER_PAYMENT_DUE;
}

static void text_due(const struct paying *paying, struct sql_text *sql)
{
    size_t due = 0;
    for (size_t i = 0; i < paying->set.count; i++) {
        const struct ledger_payment *payment = payment_at(paying, i);
        if (is_due(payment))
            sql_printf(sql, "%-s(%ju,%s,%s,UTC_TIMESTAMP(3))",
                       due++ == 0 ? "INSERT INTO refund_due(order_id,payment_ref,sku,due_at)VALUES"
                                  : ",",
                       paying->set.entries[i].order_id, payment->ref,
                       paying->locked[order_set_first(&paying->set, i)].sku);
    }
    if (due > 0)
        sql_append(sql, ";", 1);
}

/* Appends the events of the orders that this call pays, and of the payments that it makes due. */
static void text_events(const struct paying *paying)
{
    struct event_list paid = {paying->ledger, LEDGER_EVENT_PAID, has_names(paying), 0};
    struct event_list due = {paying->ledger, LEDGER_EVENT_REFUND_DUE, true, 0};
    for (size_t i = 0; i < paying->set.count; i++)
        if (payment_at(paying, i)->moved)
            event_list_add(&paid, paying->set.entries[i].order_id, NULL);
    event_list_end(&paid);
    for (size_t i = 0; i < paying->set.count; i++)
        if (is_due(payment_at(paying, i)))
            event_list_add(&due, paying->set.entries[i].order_id, payment_at(paying, i)->ref);
    event_list_end(&due);
}

/* Inserts what this call has told. `any_out`: it has told anything. */
static enum db_result write_payments(const struct paying *paying, bool *any_out)
{
    struct commit_payment told[LEDGER_ORDERS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < paying->set.count; i++) {
        const struct ledger_payment *payment = payment_at(paying, i);
        if (payment->told)
            told[count++] = (struct commit_payment){paying->set.entries[i].order_id, payment->ref,
                                                    payment->state, payment->outcome};
    }
    *any_out = count > 0;
    return commit_rows_payments(paying->ledger, told, count);
}

/* An answer to a payment rests on the payment, or without a name on the order's status. */
static bool relies_on_others(const struct paying *paying)
{
    bool relies = false;
    for (size_t i = 0; i < paying->set.count; i++) {
        const struct ledger_payment *payment = paying->payments[i];
        relies |= ledger_payment_named(payment)
                      ? payment->state != LEDGER_PAYMENT_NONE && !payment->told
                      : ledger_status_changed(paying->set.records[i]->status);
    }
    return relies;
}

static enum db_result pay(struct paying *paying)
{
    const struct order_set *set = &paying->set;
    struct sql_text *sql = &paying->ledger->sql;
    enum db_result result = lock_orders(paying->ledger, set, paying->locked, PAYMENTS);
    if (result == DB_OK)
        result = find_payments(paying, ledger_query, "");
    if (result != DB_OK)
        return result;
    decide(paying);
    bool told = false;
    result = write_payments(paying, &told);
    if (result != DB_OK)
        return result;
    sql_clear(sql);
    bool writes = text_orders(paying, sql) || told;
    text_due(paying, sql);
    text_events(paying);
    result = order_set_fetch(set, paying->ledger, ledger_query);
    if (result == DB_OK && !writes && relies_on_others(paying))
        result = ledger_do(paying->ledger, "%-s", ledger_confirm_text);
    for (size_t i = 0; i < set->count && result == DB_OK; i++)
        if ((paying->payments[i]->moved || paying->payments[i]->told) && set->records[i]->damaged)
            return DB_NO; /* no answer could show the order */
    return result;
}

enum ledger_result ledger_pay(struct ledger *ledger, struct ledger_record *const *records,
                              struct ledger_payment *const *payments, size_t count)
{
    struct paying paying;
    enum db_result result = DB_DUPLICATE;
    paying_init(&paying, ledger, records, payments, count);
    paying.set.asks_payable = true;
    for (int tries = 0; tries < 2 && result == DB_DUPLICATE; tries++) {
        struct db_run run = {0};
        paying.looks_all = tries > 0;
        while (db_run(ledger->db, &run))
            run.result = pay(&paying);
        result = run.result;
    }
    return result == DB_NO ? LEDGER_DAMAGED : ledger_from_db(result);
}

/* ---- refunds of what is due ---- */

enum ledger_result ledger_payments_find(struct ledger *ledger, struct ledger_record *const *records,
                                        struct ledger_payment *const *payments, size_t count)
{
    struct paying paying;
    paying_init(&paying, ledger, records, payments, count);
    if (find_payments(&paying, ledger_read, "") != DB_OK)
        return LEDGER_FAILED;
    uint64_t connection = ledger_connection(ledger);
    sql_clear(&ledger->sql);
    if (order_set_fetch(&paying.set, ledger, ledger_read) != DB_OK)
        return LEDGER_FAILED;
    /* A commit at another server confirms only what was read there. */
    bool same = !has_names(&paying) || ledger_connection(ledger) == connection;
    return same ? LEDGER_OK : LEDGER_FAILED;
}

/* The state alone decides: from due it changes only here. */
static enum db_result refund(struct paying *paying)
{
    struct sql_text *sql = &paying->ledger->sql;
    enum db_result result = find_payments(paying, ledger_query, "FOR UPDATE");
    for (size_t i = 0; i < paying->set.count && result == DB_OK; i++) {
        struct ledger_payment *payment = payment_at(paying, i);
        payment->told = payment->state == LEDGER_PAYMENT_DUE && !earlier(paying, i);
    }
    if (result != DB_OK)
        return result;
    sql_begin(sql,
              "UPDATE payment FORCE INDEX(PRIMARY)SET state='refunded',"
              "refunded_at=UTC_TIMESTAMP(3)WHERE state='refund_due' AND(order_id,payment_ref)IN");
    text_names(paying, sql);
    sql_printf(sql, ";DELETE FROM refund_due WHERE(order_id,payment_ref)IN");
    text_names(paying, sql);
    sql_printf(sql, ";%-s", ledger_confirm_text); /* others may have refunded some of them */
    return ledger_query(paying->ledger);
}

enum ledger_result ledger_refund(struct ledger *ledger, struct ledger_record *const *records,
                                 struct ledger_payment *const *payments, size_t count)
{
    struct paying paying;
    struct db_run run = {0};
    paying_init(&paying, ledger, records, payments, count);
    while (db_run(ledger->db, &run))
        run.result = refund(&paying);
    for (size_t i = 0; i < count && run.result == DB_OK; i++)
        if (payments[i]->state == LEDGER_PAYMENT_DUE)
            payments[i]->state = LEDGER_PAYMENT_REFUNDED;
    return ledger_from_db(run.result);
}

/* ---- extended reservations ---- */

/* The range of the former moment is deleted when none of its orders is due then. */
static void text_extension(struct sql_text *sql, uint64_t order_id, int64_t expires_ms)
{
    sql_printf(sql, "UPDATE orders SET " LEDGER_VERSION_NEXT ",expires_at=");
    ledger_time_text(sql, expires_ms);
    sql_printf(sql, " WHERE order_id=%ju;", order_id);
    ledger_due_text(sql, order_id);
}

static enum db_result extend(struct ledger *ledger, const struct order_set *set,
                             struct ledger_extension *const *extensions)
{
    struct locked locked[LEDGER_ORDERS_MAX];
    bool writes = false;
    enum db_result result = lock_orders(ledger, set, locked, HOLDS);
    if (result != DB_OK)
        return result;
    sql_clear(&ledger->sql);
    for (size_t i = 0; i < set->count; i++) {
        struct locked *order = &locked[order_set_first(set, i)];
        struct ledger_extension *extension = extensions[set->entries[i].place];
        bool later = order->mine && order->status == LEDGER_RESERVED &&
                     order->standing == LEDGER_IN_ROUND && order->expires_ms != 0 &&
                     extension->expires_ms > order->expires_ms;
        extension->latest_ms = order->latest_ms;
        extension->limited = later && extension->expires_ms > order->latest_ms;
        extension->moved = later && !extension->limited;
        if (!extension->moved)
            continue;
        text_extension(&ledger->sql, set->entries[i].order_id, extension->expires_ms);
        order->expires_ms = extension->expires_ms;
        struct event_list events = {ledger, LEDGER_EVENT_CHANGED, false, 0};
        event_list_add(&events, set->entries[i].order_id, NULL);
        event_list_end(&events);
        writes = true;
    }
    result = order_set_fetch(set, ledger, ledger_query);
    return result != DB_OK || writes ? result : ledger_do(ledger, "%-s", ledger_confirm_text);
}

enum ledger_result ledger_extend(struct ledger *ledger, struct ledger_record *const *records,
                                 struct ledger_extension *const *extensions, size_t count)
{
    struct order_set set;
    struct db_run run = {0};
    order_set_init(&set, records, count);
    set.asks_payable = true;
    while (db_run(ledger->db, &run))
        run.result = extend(ledger, &set, extensions);
    return ledger_from_db(run.result);
}
