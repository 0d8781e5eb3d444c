/* The statuses of an order: which transitions exist, and payment.
 *
 * why_ledgers_clock: the statement that changes the status decides whether the order's time to pay
 * is over, by the clock of the ledger's server, for payment and expiry alike. So daemons whose
 * clocks differ cannot disagree, and a moment is either in time or too late, never both. */
#include "sql/ledger_status.h"

#include <string.h>

#include "sql/ledger_query.h"

static const char *const names[] = {
    [LEDGER_RESERVED] = "reserved",
    [LEDGER_PAID] = "paid",
    [LEDGER_CANCELLED] = "cancelled",
    [LEDGER_EXPIRED] = "expired",
};

/* All transitions. No statement changes a status but under the condition of ledger_status_text. */
static const struct {
    enum ledger_status from, to;
    const char *when;
} transitions[] = {
    {LEDGER_RESERVED, LEDGER_PAID, "(o.expires_at IS NULL OR o.expires_at>UTC_TIMESTAMP(3))"},
    {LEDGER_RESERVED, LEDGER_CANCELLED, "TRUE"},
    {LEDGER_RESERVED, LEDGER_EXPIRED, "o.expires_at<=UTC_TIMESTAMP(3)"},
};

enum { TRANSITIONS = sizeof transitions / sizeof transitions[0] };

const char *ledger_status_name(enum ledger_status status)
{
    return names[status];
}

bool ledger_status_may(const char *from, enum ledger_status to)
{
    for (size_t i = 0; i < TRANSITIONS; i++)
        if (transitions[i].to == to && strcmp(names[transitions[i].from], from) == 0)
            return true;
    return false;
}

void ledger_status_text(struct sql_text *sql, enum ledger_status to)
{
    const char *lead = "(";
    for (size_t i = 0; i < TRANSITIONS; i++) {
        if (transitions[i].to != to)
            continue;
        sql_printf(sql, "%so.status='%s' AND %s", lead, names[transitions[i].from],
                   transitions[i].when);
        lead = " OR ";
    }
    sql_append(sql, ")", 1);
}

/* ---- paying ---- */

struct payment {
    struct ledger *ledger;
    uint64_t order_id;
};

static enum db_result pay_body(struct db *db, void *context)
{
    const struct payment *payment = context;
    struct sql_text *sql = &payment->ledger->sql;
    sql_clear(sql);
    sql_printf(sql, "UPDATE orders o SET o.status='%s' WHERE ", names[LEDGER_PAID]);
    ledger_status_text(sql, LEDGER_PAID);
    sql_printf(sql, " AND o.order_id=%llu", (unsigned long long)payment->order_id);
    enum db_result result = ledger_query(payment->ledger);
    return result == DB_OK && db_affected(db, 0) != 1 ? DB_NO : result;
}

enum ledger_result ledger_pay(struct ledger *ledger, uint64_t order_id)
{
    struct payment payment = {ledger, order_id};
    return ledger_from_db(db_run(ledger->db, pay_body, &payment));
}
