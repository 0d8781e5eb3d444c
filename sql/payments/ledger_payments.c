/* Lists and counts payments. */
#include "sql/payments/payments.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"

static const char *const states[LEDGER_PAYMENT_STATES] = {
    [LEDGER_PAYMENT_NONE] = "",          [LEDGER_PAYMENT_TAKEN] = "taken",
    [LEDGER_PAYMENT_DUE] = "refund_due", [LEDGER_PAYMENT_REFUNDED] = "refunded",
    [LEDGER_PAYMENT_FAILED] = "failed",
};

static const char *const outcomes[LEDGER_PAYMENT_OUTCOMES] = {
    [LEDGER_OUTCOME_NONE] = "",
    [LEDGER_IN_TIME] = "in_time",
    [LEDGER_RETAKEN] = "retaken",
    [LEDGER_TOO_LATE] = "too_late",
    [LEDGER_ALREADY_PAID] = "already_paid",
};

const char *ledger_payment_state_name(enum ledger_payment_state state)
{
    return states[state];
}

const char *ledger_payment_outcome_name(enum ledger_payment_outcome outcome)
{
    return outcomes[outcome];
}

enum ledger_payment_state ledger_payment_state_of(const char *name)
{
    for (int state = LEDGER_PAYMENT_TAKEN; state < LEDGER_PAYMENT_STATES; state++)
        if (strcmp(states[state], name) == 0)
            return (enum ledger_payment_state)state;
    return LEDGER_PAYMENT_NONE;
}

/* ---- lists ---- */

static bool read_row(struct ledger *ledger, struct ledger_payment_row *payment, char **row)
{
    const char *ref = row[8] ? row[8] : "";
    bool valid = ledger_order_valid(row) && row[5] && ledger_status_known(row[5]) &&
                 user_id_copy(ref, strlen(ref), payment->ref) &&
                 ledger_number_valid(row[6], LEDGER_PAYMENT_TAKEN, LEDGER_PAYMENT_FAILED) &&
                 ledger_number_valid(row[7], LEDGER_IN_TIME, LEDGER_ALREADY_PAID);
    if (!valid) {
        ledger_note_damage(ledger, "payment: order_id %s, payment_ref '%s', state %s, outcome %s",
                           row[0], ref, row[6], row[7]);
        return false;
    }
    payment->order_id = ledger_u64(row[0]);
    ledger_identifier(payment->sku, row[1]);
    payment->round = ledger_u32(row[2]);
    ledger_user_id(payment->user_id, row[3]);
    snprintf(payment->order_status, sizeof payment->order_status, "%s", row[5]);
    payment->state = (enum ledger_payment_state)ledger_u32(row[6]);
    payment->outcome = (enum ledger_payment_outcome)ledger_u32(row[7]);
    ledger_time_read(payment->told_at, row[9]);
    ledger_time_read(payment->refunded_at, row[10]);
    return true;
}

/* Begins at the place, and reads a bounded piece of the one table or the other. */
static void text_list(struct sql_text *sql, const struct ledger_payment_filter *filter,
                      const struct ledger_payment_place *place, size_t rows)
{
    bool due = filter->state == LEDGER_PAYMENT_DUE;
    sql_begin(sql,
              "SELECT STRAIGHT_JOIN o.order_id,o.sku,o.round,o.user_id,o.qty,o.status,p.state+0,"
              "p.outcome+0,p.payment_ref,p.told_at,p.refunded_at FROM(SELECT order_id,payment_ref "
              "FROM %-s WHERE (order_id>%ju OR(order_id=%ju AND payment_ref>%s))",
              due ? "refund_due" : "payment", place->order_id, place->order_id, place->ref);
    if (filter->order_id != 0)
        sql_printf(sql, " AND order_id=%ju", filter->order_id);
    if (due && filter->sku[0] != '\0')
        sql_printf(sql, " AND sku=%s", filter->sku);
    sql_printf(sql,
               " ORDER BY order_id,payment_ref LIMIT %ju)k JOIN payment p ON p.order_id=k.order_id "
               "AND p.payment_ref=k.payment_ref JOIN orders o ON o.order_id=k.order_id "
               "ORDER BY k.order_id,k.payment_ref",
               (uint64_t)rows);
}

static bool passes(const struct ledger_payment_filter *filter, const struct ledger_payment_row *row)
{
    return (filter->state == LEDGER_PAYMENT_NONE || filter->state == row->state) &&
           (filter->sku[0] == '\0' || strcmp(filter->sku, row->sku) == 0);
}

enum ledger_result ledger_payments_list(struct ledger *ledger,
                                        const struct ledger_payment_filter *filter,
                                        struct ledger_payment_place *place, size_t max,
                                        struct ledger_payment_row *rows_out, size_t *count_out)
{
    bool all = filter->state == LEDGER_PAYMENT_DUE ||
               (filter->state == LEDGER_PAYMENT_NONE && filter->sku[0] == '\0');
    size_t rows = all ? max : LEDGER_PAYMENTS_MAX, read = 0;
    assert(max > 0 && max <= LEDGER_PAYMENTS_MAX);
    *count_out = 0;
    text_list(&ledger->sql, filter, place, rows);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = db_row(ledger->db);
    for (; row && *count_out < max; row = db_row(ledger->db), read++) {
        struct ledger_payment_row *payment = &rows_out[*count_out];
        bool valid = read_row(ledger, payment, row);
        place->order_id = ledger_u64(row[0]);
        snprintf(place->ref, sizeof place->ref, "%s", row[8] ? row[8] : "");
        *count_out += valid && passes(filter, payment);
    }
    if (!row && read < rows)
        *place = (struct ledger_payment_place){.order_id = 0};
    return LEDGER_OK;
}

enum ledger_result ledger_refunds_count(struct ledger *ledger, struct ledger_refunds_due *due_out)
{
    char **row;
    *due_out = (struct ledger_refunds_due){.count = 0};
    enum ledger_result result = ledger_read_row(
        ledger, &row,
        "SELECT COUNT(*),GREATEST(TIMESTAMPDIFF(SECOND,MIN(due_at),UTC_TIMESTAMP(3)),0)"
        "FROM(SELECT due_at FROM refund_due FORCE INDEX(due_at)WHERE due_at IS NOT NULL "
        "ORDER BY due_at LIMIT %d)d",
        LEDGER_DUE_COUNT_MAX);
    if (result != LEDGER_OK)
        return LEDGER_FAILED;
    due_out->count = ledger_u32(row[0]);
    due_out->oldest_s = (int64_t)ledger_u64(row[1]);
    return LEDGER_OK;
}
