/* What becomes of an order after it was accepted: paid, or its units given back.
 *
 * why_ledgers_clock: whether an order's time to pay is over is decided within the statement that
 * moves it, by the clock of the ledger's server, for payment and expiry alike. Daemons whose clocks
 * differ cannot disagree about it, and a moment is either in time or too late, never both. */
#include "sql/ledger_status.h"

#include <string.h>

#include "sql/ledger_query.h"

static const char *const names[] = {
    [LEDGER_RESERVED] = "reserved",
    [LEDGER_PAID] = "paid",
    [LEDGER_CANCELLED] = "cancelled",
    [LEDGER_EXPIRED] = "expired",
};

/* Every move there is; no statement changes a status but by text_may. */
static const struct {
    enum ledger_status from, to;
    const char *when;
} moves[] = {
    {LEDGER_RESERVED, LEDGER_PAID, "(o.expires_at IS NULL OR o.expires_at>UTC_TIMESTAMP(3))"},
    {LEDGER_RESERVED, LEDGER_CANCELLED, "TRUE"},
    {LEDGER_RESERVED, LEDGER_EXPIRED, "o.expires_at<=UTC_TIMESTAMP(3)"},
};

enum { MOVES = sizeof moves / sizeof moves[0] };

const char *ledger_status_name(enum ledger_status status)
{
    return names[status];
}

bool ledger_status_may(const char *from, enum ledger_status to)
{
    for (size_t i = 0; i < MOVES; i++)
        if (moves[i].to == to && strcmp(names[moves[i].from], from) == 0)
            return true;
    return false;
}

/* The condition under which the order `o` may move. */
void ledger_status_text(struct sql_text *sql, enum ledger_status to)
{
    const char *lead = "(";
    for (size_t i = 0; i < MOVES; i++) {
        if (moves[i].to != to)
            continue;
        sql_printf(sql, "%so.status='%s' AND %s", lead, names[moves[i].from], moves[i].when);
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
