/* The statuses of an order: which transitions exist.
 *
 * why_ledgers_clock: the statement that changes the status decides whether the order's time to pay
 * is over, by the clock of the ledger's server, for payment and expiry alike. So daemons whose
 * clocks differ cannot disagree, and a moment is either in time or too late, never both.
 *
 * why_the_round: a reset replaces the units that the orders of earlier rounds hold. So an order is
 * paid only while its round is the sale's present one, from which nothing leads back. */
#include "sql/orders/orders.h"

#include <string.h>

#include "sql/db/sql_text.h"

static const char *const names[] = {
    [LEDGER_RESERVED] = "reserved",
    [LEDGER_PAID] = "paid",
    [LEDGER_CANCELLED] = "cancelled",
    [LEDGER_EXPIRED] = "expired",
};

/* The present round of the order's sale. For a payment it is locked, so that no reset can end the
 * round before the payment is committed. A sale that somebody is changing is skipped, by the words
 * of MySQL or those of MariaDB: its order seems not payable in that statement alone. */
#define ROUND_NOW(lock) "(SELECT s.round FROM sale s WHERE s.sku=o.sku" lock ")"
#define SHARE_SKIP_LOCKED "/*!80001 FOR SHARE SKIP LOCKED*//*M! LOCK IN SHARE MODE SKIP LOCKED*/"

#define EXPIRED "(o.expires_at<=UTC_TIMESTAMP(3)OR o.round<" ROUND_NOW("") ")"
#define IN_TIME "(o.expires_at IS NULL OR o.expires_at>UTC_TIMESTAMP(3))AND o.round="

/* All transitions. No statement changes a status but under the condition of ledger_status_text. */
static const struct {
    enum ledger_status from, to;
    const char *when;
    const char *when_locking; /* the same */
} transitions[] = {
    {LEDGER_RESERVED, LEDGER_PAID, IN_TIME ROUND_NOW(""), IN_TIME ROUND_NOW(SHARE_SKIP_LOCKED)},
    {LEDGER_RESERVED, LEDGER_CANCELLED, "TRUE", "TRUE"},
    {LEDGER_RESERVED, LEDGER_EXPIRED, EXPIRED, EXPIRED},
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

bool ledger_status_known(const char *status)
{
    bool known = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        known |= strcmp(names[i], status) == 0;
    return known;
}

bool ledger_status_final(const char *status)
{
    bool known = ledger_status_known(status);
    for (size_t i = 0; i < TRANSITIONS; i++)
        known &= strcmp(names[transitions[i].from], status) != 0;
    return known;
}

static void text(struct sql_text *sql, enum ledger_status to, bool locking)
{
    const char *lead = "(";
    for (size_t i = 0; i < TRANSITIONS; i++) {
        if (transitions[i].to != to)
            continue;
        sql_printf(sql, "%so.status='%s' AND %s", lead, names[transitions[i].from],
                   locking ? transitions[i].when_locking : transitions[i].when);
        lead = " OR ";
    }
    sql_append(sql, ")", 1);
}

void ledger_status_text(struct sql_text *sql, enum ledger_status to)
{
    text(sql, to, false);
}

void ledger_status_text_locking(struct sql_text *sql, enum ledger_status to)
{
    text(sql, to, true);
}
