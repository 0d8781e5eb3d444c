/* What becomes of an order after it was accepted: paid, or its units given back. */
#ifndef SQL_LEDGER_STATUS_H
#define SQL_LEDGER_STATUS_H

#include "sql/ledger.h"

enum ledger_status { LEDGER_RESERVED, LEDGER_PAID, LEDGER_CANCELLED, LEDGER_EXPIRED };

/* The word for a status, as it is in the ledger and in answers. */
const char *ledger_status_name(enum ledger_status status);

/* True when an order whose status is called `from` may move to `to`, as far as that does not depend
 * on the time. */
bool ledger_status_may(const char *from, enum ledger_status to);

/* Pays an order. LEDGER_NO: there is no such order, or it is not reserved (any more), or its time
 * to pay is over by the ledger's clock, whether it has been expired yet or not. LEDGER_UNKNOWN:
 * repeat it; a repeat waits for the first to end. */
enum ledger_result ledger_pay(struct ledger *ledger, uint64_t order_id);

enum {
    /* Orders of one return: fewer than the 1000 from which MariaDB makes a subquery of a list. */
    LEDGER_RETURNS_MAX = 900,
};

/* Orders of one sale and round that are cancelled or expire together. */
struct ledger_return {
    const char *sku;
    uint32_t round;
    enum ledger_status to; /* LEDGER_CANCELLED or LEDGER_EXPIRED */
    const uint64_t *order_ids;
    size_t order_count; /* 1..LEDGER_RETURNS_MAX */
    /* Every segment that the orders have units of. In: segment, and the fence of the lock that the
     * caller holds. Out: the row as it is now; its fence is the caller's where units came back.
     * None for an older round, whose units are nobody's any more: only the statuses move. */
    struct ledger_segment *segments;
    size_t segment_count;
    size_t moved; /* out: orders that were in a state to move; the others are left as they are */
};

/* One transaction: moves the statuses, takes the orders' units off what is sold of their segments
 * and of what their users have. A segment is changed only within its
 * round and from a smaller fence; if one refuses, nothing is done (LEDGER_NO). May be repeated,
 * after LEDGER_UNKNOWN as well: what was returned is not returned twice. */
enum ledger_result ledger_return(struct ledger *ledger, struct ledger_return *returned);

/* An order that is to expire. */
struct ledger_due {
    uint64_t order_id;
    char sku[LEDGER_IDENTIFIER_SIZE];
    uint32_t round;
    int32_t segment; /* or LEDGER_SEGMENT_SEVERAL */
};

/* How far ledger_due_list has come; all zero: nowhere. */
struct ledger_due_cursor {
    bool more; /* there are others behind it */
    char expires_at[LEDGER_TIME_SIZE];
    uint64_t first_id;
};

/* Reserved orders whose time is over by the ledger's clock, behind `place`, which moves on: at most
 * `max`, perhaps none though there are more behind them. Those that expire first come in the first
 * calls, in each of these by their id. */
enum ledger_result ledger_due_list(struct ledger *ledger, struct ledger_due_cursor *place,
                                   size_t max, struct ledger_due *due_out, size_t *count_out);

#endif
