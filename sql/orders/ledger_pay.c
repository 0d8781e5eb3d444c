/* Orders paid, many in one transaction.
 *
 *   lock the orders that can be paid, skipping those that somebody else has locked
 *     ─► UPDATE them · SELECT all ─► commit
 *
 * A reset makes the sale's orders not payable: the payment holds the sale's row, shared, until it
 * is committed, so none of a round that is over slips in.
 *
 * why_skip_locked: an order that is being cancelled, or whose other payment hangs, must not keep
 * hundreds of payments waiting, nor may a sale that is being changed; and a transaction that waits
 * for nobody takes part in no deadlock. Ids of no order are not locked either, so that
 * they cannot keep new orders from being written. */
#include "sql/orders/orders.h"

#include <assert.h>

#include "sql/ledger/ledger_query.h"
#include "sql/orders/order_set.h"

struct payment {
    struct ledger *ledger;
    struct order_set set;
    bool *moved;
};

static enum db_result lock_payable(const struct payment *payment)
{
    struct sql_text *sql = &payment->ledger->sql;
    sql_clear(sql);
    sql_printf(sql, "SELECT o.order_id FROM orders o FORCE INDEX(PRIMARY)WHERE ");
    ledger_status_text_locking(sql, LEDGER_PAID);
    sql_printf(sql, "AND o.order_id IN");
    order_set_ids(&payment->set, sql);
    sql_printf(sql, "FOR UPDATE SKIP LOCKED");
    return ledger_query(payment->ledger);
}

/* The statement that has locked the orders has also decided that they are in time. */
static bool text_update(const struct payment *payment, struct db *db)
{
    struct sql_text *sql = &payment->ledger->sql;
    const char *lead = "(";
    for (size_t i = 0; i < payment->set.count; i++)
        payment->moved[i] = false;
    sql_clear(sql);
    for (char **row = db_row(db); row; row = db_row(db)) {
        uint64_t order_id = ledger_u64(row[0]);
        if (lead[0] == '(')
            sql_printf(sql, "UPDATE orders FORCE INDEX(PRIMARY)SET status='%s' WHERE order_id IN",
                       ledger_status_name(LEDGER_PAID));
        sql_append(sql, lead, 1);
        sql_number(sql, order_id);
        lead = ",";
        payment->moved[order_set_find(&payment->set, order_id)] = true;
    }
    if (lead[0] == ',')
        sql_append(sql, ");", 2);
    return lead[0] == ',';
}

/* True when the answer would rest on a status that somebody else has committed. */
static bool relies_on_others(const struct payment *payment)
{
    for (size_t i = 0; i < payment->set.count; i++)
        if (ledger_status_final(payment->set.records[i]->status))
            return true;
    return false;
}

/* True when an order is being paid that no answer could show: then none is. */
static bool pays_damaged(const struct payment *payment)
{
    for (size_t i = 0; i < payment->set.count; i++)
        if (payment->moved[i] && payment->set.records[i]->damaged)
            return true;
    return false;
}

static enum db_result pay_body(struct db *db, void *context)
{
    struct payment *payment = context;
    enum db_result result = lock_payable(payment);
    if (result != DB_OK)
        return result;
    bool writes = text_update(payment, db);
    result = order_set_fetch(&payment->set, payment->ledger, ledger_query);
    if (result == DB_OK && pays_damaged(payment))
        return DB_NO;
    if (result != DB_OK || writes || !relies_on_others(payment))
        return result;
    sql_clear(&payment->ledger->sql);
    ledger_confirm_text(&payment->ledger->sql);
    return ledger_query(payment->ledger);
}

enum ledger_result ledger_pay(struct ledger *ledger, struct ledger_record *const *records,
                              size_t count, bool *moved_out)
{
    struct payment payment = {.ledger = ledger, .moved = moved_out};
    order_set_init(&payment.set, records, count);
    payment.set.asks_payable = true;
    enum ledger_result result = ledger_from_db(db_run(ledger->db, pay_body, &payment));
    return result == LEDGER_NO ? LEDGER_DAMAGED : result;
}
