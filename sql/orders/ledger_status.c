/* Defines the statuses of an order and the transitions between them.
 *
 * why_ledgers_clock: the statement that changes the status decides whether the order's time to pay
 * is over, by the clock of the ledger's server, for payment and expiry alike. So daemons whose
 * clocks differ cannot disagree, and a moment is either in time or too late, never both.
 *
 * why_the_round: a reset replaces the units that the orders of earlier rounds hold. So an order is
 * paid only while its round is the sale's present one, from which nothing leads back. */
#include "sql/orders/orders.h"

#include <assert.h>
#include <string.h>

static const char *const names[] = {
    [LEDGER_RESERVED] = "reserved",
    [LEDGER_PAID] = "paid",
    [LEDGER_CANCELLED] = "cancelled",
    [LEDGER_EXPIRED] = "expired",
};

/* The present round of the order's sale. For a payment it is locked, so that no reset can end the
 * round before the payment is committed. A sale that another transaction is changing is skipped (in
 * the syntax of MySQL or MariaDB): its order seems not payable in that statement alone. */
#define ROUND_NOW(lock) "(SELECT s.round FROM sale s WHERE s.sku=o.sku" lock ")"
#define SHARE_SKIP_LOCKED "/*!80001 FOR SHARE SKIP LOCKED*//*M! LOCK IN SHARE MODE SKIP LOCKED*/"

#define IN_TIME "(o.expires_at IS NULL OR o.expires_at>UTC_TIMESTAMP(3))AND o.round="
#define RESERVED(condition) "(o.status='reserved' AND " condition ")"

/* All transitions, each from LEDGER_RESERVED. Each change of a status states its condition. */
static const char *const conditions[LEDGER_STATUSES] = {
    [LEDGER_PAID] = RESERVED(IN_TIME ROUND_NOW("")),
    [LEDGER_CANCELLED] = RESERVED("TRUE"),
    [LEDGER_EXPIRED] = RESERVED("(o.expires_at<=UTC_TIMESTAMP(3)OR o.round<" ROUND_NOW("") ")"),
};

const char *ledger_status_name(enum ledger_status status)
{
    return names[status];
}

bool ledger_status_may(const char *from, enum ledger_status to)
{
    return conditions[to] && strcmp(from, names[LEDGER_RESERVED]) == 0;
}

bool ledger_status_known(const char *status)
{
    bool known = false;
    for (size_t i = 0; i < LEDGER_STATUSES; i++)
        known |= strcmp(names[i], status) == 0;
    return known;
}

bool ledger_status_final(const char *status)
{
    return ledger_status_known(status) && strcmp(status, names[LEDGER_RESERVED]) != 0;
}

const char *ledger_status_condition(enum ledger_status to)
{
    assert(conditions[to]);
    return conditions[to];
}

const char *ledger_status_payable_locking(void)
{
    return RESERVED(IN_TIME ROUND_NOW(SHARE_SKIP_LOCKED));
}
