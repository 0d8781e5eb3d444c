/* Orders that are cancelled or expire: their statuses change, and their units can be sold again. */
#ifndef SQL_LEDGER_RETURN_H
#define SQL_LEDGER_RETURN_H

#include "sql/ledger_segment.h"
#include "sql/orders/ledger_status.h"

enum {
    /* Orders of one return: fewer than the 1000 from which MariaDB makes a subquery of a list. */
    LEDGER_RETURNS_MAX = 900,
};

/* A segment that the caller has locked, for units to be taken off what it has sold. */
struct ledger_return_segment {
    const char *sku;
    uint32_t segment;
    uint32_t segments; /* of the sale, as far as the caller knows */
    uint64_t fence;    /* of the caller's lock */
    /* Out: the row as the transaction leaves it. Its round is 0 when the ledger has no such row,
     * when another transaction holds it, and when it makes no sense. */
    struct ledger_segment row;
    uint32_t returned; /* out: units taken off `sold`; if any, the row's fence is the caller's */
};

struct ledger_return_order {
    uint64_t order_id;
    bool round_over; /* its sale is in a later round, so its units no longer exist */
    bool moved;      /* out: its status has changed */
    bool unmet;      /* out: its sale's segments are given, and have not sold as much as it has */
    bool damaged;    /* out: nor has its whole sale */
};

/* Compares the ids of two struct ledger_return_order, for qsort and bsearch. */
static inline int ledger_return_order_compare(const void *left, const void *right)
{
    const struct ledger_return_order *a = left, *b = right;
    return (a->order_id > b->order_id) - (a->order_id < b->order_id);
}

/* Orders of any sales that are cancelled, or expire, together. */
struct ledger_return {
    enum ledger_status to; /* LEDGER_CANCELLED or LEDGER_EXPIRED */
    struct ledger_return_order *orders;
    size_t order_count; /* 1..LEDGER_RETURNS_MAX, each id once, in the order of the ids */
    struct ledger_return_segment *segments;
    size_t segment_count; /* 0..LEDGER_SEGMENTS_MAX, sorted by sku and segment */
};

/* One transaction: changes the statuses of those orders that may change, takes their units off what
 * the given segments of their sales have sold, in whatever parts, and gives them back to their
 * users' quotas. An order stays as it is while another transaction holds its row, and when the
 * segments of its sale and round have not sold as much as it has. No row of a segment or an order
 * is waited for. LEDGER_NO: a segment refused, and nothing is done. It may be repeated, after
 * LEDGER_UNKNOWN as well: no unit is returned twice. With any result but LEDGER_OK no order counts
 * as moved. */
enum ledger_result ledger_return(struct ledger *ledger, struct ledger_return *returned);

#endif
