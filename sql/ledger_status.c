/* The statuses of an order: which transitions exist.
 *
 * why_ledgers_clock: the statement that changes the status decides whether the order's time to pay
 * is over, by the clock of the ledger's server, for payment and expiry alike. So daemons whose
 * clocks differ cannot disagree, and a moment is either in time or too late, never both. */
#include "sql/ledger_status.h"

#include <string.h>

#include "sql/sql_text.h"

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

bool ledger_status_final(const char *status)
{
    bool known = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        known |= strcmp(names[i], status) == 0;
    for (size_t i = 0; i < TRANSITIONS; i++)
        known &= strcmp(names[transitions[i].from], status) != 0;
    return known;
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
