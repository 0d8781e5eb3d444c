/* Defines the statuses of an order and the transitions between them.
 *
 * why_ledgers_clock: the statement that changes the status decides whether the order's time to pay
 * is over, by the clock of the ledger's server, for payment and expiry alike. So daemons whose
 * clocks differ cannot disagree, and a moment is either in time or too late, never both.
 *
 * why_the_round: a reset replaces the units that the orders of earlier rounds hold. So an order is
 * paid only while its round is the sale's present one, from which nothing leads back. Likewise it
 * becomes reserved again only in that round, under the sale's lock: no reset or retirement, which
 * ends the reserved orders, passes it over. */
#include "sql/orders/orders.h"

#include <assert.h>
#include <string.h>

static const char *const names[] = {
    [LEDGER_RESERVED] = "reserved",   [LEDGER_PAID] = "paid",
    [LEDGER_CANCELLED] = "cancelled", [LEDGER_EXPIRED] = "expired",
    [LEDGER_REFUNDED] = "refunded",
};

/* True of an unpaid order from a moment on. Most are in time, which one comparison tells. */
#define OVERDUE                                                                                    \
    "(o.expires_at<=UTC_TIMESTAMP(3)AND(o.grace_s IS NULL OR "                                     \
    "o.expires_at<=UTC_TIMESTAMP(3)-INTERVAL o.grace_s SECOND))"
#define RESERVED(condition) "(o.status='reserved' AND " condition ")"

/* For a payment the sale is locked, so that no reset can end the round before the payment is
 * committed. A sale that another transaction is changing is skipped (in the syntax of MySQL or
 * MariaDB): its order is not seen to stand anywhere in that statement alone. But nothing leads back
 * to the round of a sale that is in another one or gone: to see that needs no lock. */
#define STANDING(lock)                                                                             \
    "(SELECT IF(s.round<>o.round,3,IF(" OVERDUE ",2+s.refund_late,1))FROM sale s "                 \
    "WHERE s.sku=o.sku" lock ")"
#define UNSEEN_OR_OVER "IF(o.round=(SELECT s.round FROM sale s WHERE s.sku=o.sku),0,3)"
#define SHARE_SKIP_LOCKED "/*!80001 FOR SHARE SKIP LOCKED*//*M! LOCK IN SHARE MODE SKIP LOCKED*/"

_Static_assert(LEDGER_IN_ROUND == 1 && LEDGER_OVERDUE == 2 && LEDGER_OVER == 3, "as STANDING says");

/* All transitions but that of a late payment, which finds an expired order (ledger_commit.c). Each
 * change of a status states its condition. */
static const char *const conditions[LEDGER_STATUSES] = {
    [LEDGER_RESERVED] = "(o.status='paid' AND o.round="
                        "(SELECT s.round FROM sale s WHERE s.sku=o.sku " SHARE_SKIP_LOCKED "))",
    [LEDGER_PAID] = RESERVED(STANDING("") "=1"),
    [LEDGER_CANCELLED] = "o.status IN('reserved','expired')",
    [LEDGER_EXPIRED] =
        RESERVED("(" OVERDUE " OR o.round<(SELECT s.round FROM sale s WHERE s.sku=o.sku))"),
    [LEDGER_REFUNDED] = "o.status='paid'",
};

const char *ledger_status_name(enum ledger_status status)
{
    return names[status];
}

bool ledger_status_may(const char *from, enum ledger_status to)
{
    bool of_paid = to == LEDGER_REFUNDED || to == LEDGER_RESERVED;
    return strcmp(from, names[of_paid ? LEDGER_PAID : LEDGER_RESERVED]) == 0 ||
           (to == LEDGER_CANCELLED && strcmp(from, names[LEDGER_EXPIRED]) == 0);
}

enum ledger_status ledger_status_of(const char *name)
{
    int status = 0;
    while (status < LEDGER_STATUSES && strcmp(names[status], name) != 0)
        status++;
    return (enum ledger_status)status;
}

bool ledger_status_known(const char *status)
{
    return ledger_status_of(status) != LEDGER_STATUSES;
}

bool ledger_status_changed(const char *status)
{
    return ledger_status_known(status) && ledger_status_of(status) != LEDGER_RESERVED;
}

const char *ledger_status_condition(enum ledger_status to)
{
    assert(conditions[to]);
    return conditions[to];
}

const char *ledger_status_standing(void)
{
    return "COALESCE(" STANDING(SHARE_SKIP_LOCKED) "," UNSEEN_OR_OVER ")";
}
