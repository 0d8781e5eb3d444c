/* Units of cancelled and expired orders given back to their segments and users. */
#ifndef SQL_LEDGER_RETURN_H
#define SQL_LEDGER_RETURN_H

#include "sql/ledger_segment.h"
#include "sql/ledger_status.h"

enum {
    /* Orders of one return: fewer than the 1000 from which MariaDB makes a subquery of a list. */
    LEDGER_RETURNS_MAX = 900,
};

/* Orders of one sale and round that are cancelled, or expire, together. */
struct ledger_return {
    const char *sku;
    uint32_t round;
    enum ledger_status to; /* LEDGER_CANCELLED or LEDGER_EXPIRED */
    const uint64_t *order_ids;
    size_t order_count; /* 1..LEDGER_RETURNS_MAX */
    bool hurried;       /* it fails when another transaction holds an order or a segment */
    /* Every segment that the orders have units of. In: segment, and the fence of the lock that the
     * caller holds. Out: the row as it is now; its fence is the caller's where units came back.
     * None for an earlier round, whose units no longer exist: then only the statuses change. */
    struct ledger_segment *segments;
    size_t segment_count;
    size_t moved; /* out: orders whose status changed; the others could not change, and did not */
    uint64_t moved_ids[LEDGER_RETURNS_MAX]; /* out: the `moved` orders, in no order */
};

/* One transaction: changes the statuses and subtracts the orders' units from what is sold of their
 * segments and from their users' quotas. A segment changes only within its round and from a smaller
 * fence; if one refuses, nothing is done (LEDGER_NO). An order with more units than its segment has
 * sold makes no sense: it is left out (LEDGER_DAMAGED when no other is moved). It may be repeated,
 * after LEDGER_UNKNOWN as well: no unit is returned twice. */
enum ledger_result ledger_return(struct ledger *ledger, struct ledger_return *returned);

#endif
