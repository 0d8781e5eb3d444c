/* Orders in the ledger: writes, looks up, lists, cancels and expires them.
 * sql/payments/ pays them. */
#ifndef SQL_ORDERS_H
#define SQL_ORDERS_H

#include "sql/ledger/ledger.h"

/* ---- statuses ---- */

enum ledger_status {
    LEDGER_RESERVED,
    LEDGER_PAID,
    LEDGER_CANCELLED,
    LEDGER_EXPIRED,
    LEDGER_REFUNDED,
    LEDGER_STATUSES
};

/* A status's name, as the ledger and answers write it. */
const char *ledger_status_name(enum ledger_status status);

/* True when an order whose status is named `from` may go to `to`, unless its time forbids it. */
bool ledger_status_may(const char *from, enum ledger_status to);

/* True for the name of a status. */
bool ledger_status_known(const char *status);

/* The status of that name; LEDGER_STATUSES: there is none. */
enum ledger_status ledger_status_of(const char *name);

/* True for the name of a status other than the first one, so somebody has changed the order. */
bool ledger_status_changed(const char *status);

/* ---- payments, see sql/payments/ ---- */

enum ledger_payment_state {
    LEDGER_PAYMENT_NONE, /* no such payment is known */
    LEDGER_PAYMENT_TAKEN,
    LEDGER_PAYMENT_DUE, /* to be paid back by the shop */
    LEDGER_PAYMENT_REFUNDED,
    LEDGER_PAYMENT_FAILED, /* after it had paid the order: the money never came */
    LEDGER_PAYMENT_STATES
};

/* What the payment was answered; it never changes. */
enum ledger_payment_outcome {
    LEDGER_OUTCOME_NONE,
    LEDGER_IN_TIME,
    LEDGER_RETAKEN, /* late, and its order has its units all the same */
    LEDGER_TOO_LATE,
    LEDGER_ALREADY_PAID, /* by another payment */
    LEDGER_PAYMENT_OUTCOMES
};

/* ---- commits ---- */

/* One order to be written. The caller owns the strings. */
struct ledger_order {
    uint64_t order_id;
    const char *sku;
    const char *user_id;
    const char *key; /* idempotency key; NULL or "" for none */
    uint32_t round;
    uint32_t qty;
    uint32_t segment;   /* the first one that its units were taken from: for information only */
    int64_t created_ms; /* UTC, since 1970 */
    uint32_t limit;     /* units the user may have in this round; 0: no limit, and not counted */
    int64_t expires_ms; /* UTC, since 1970: when the order expires unless it is paid; 0: never */
    uint32_t grace_s;   /* after expires_ms it can still be paid for so long */
    int64_t until_ns;   /* monotonic: must not be committed from then on; 0: no such bound */
    /* NULL, or what pays an order that has expired: the order is in the ledger already, and this
     * commit takes its units again and makes it paid. */
    const char *payment_ref;
};

/* How a stock update may move a segment's fence. Every guard also checks round, settings and that
 * the segment has the units. */
enum ledger_guard {
    LEDGER_CHAIN,    /* from `settled`, which is smaller than `fence`, to `fence` */
    LEDGER_FENCED,   /* from any that is smaller than `fence`, to `fence` */
    LEDGER_EPOCH,    /* from `settled`, and it stays */
    LEDGER_UNFENCED, /* from any to the next number, so that sellers along the chain notice */
};

/* Units sold from one segment: one step along its chain of fences. */
struct ledger_stock_update {
    const char *sku;
    uint32_t segment;
    uint32_t round;
    uint32_t units;            /* to add to `sold` */
    uint64_t fence;            /* of the lock under which the units were taken */
    uint64_t settled;          /* the fence at which the segment was settled when they were taken */
    uint32_t settings_version; /* of the settings by which the orders were decided */
    enum ledger_guard guard;
    bool refused; /* out: the guard refused this update, or perhaps another one */
};

/* Inserts the orders and updates the segments in one transaction. LEDGER_NO: a guard refused its
 * update, which is marked `refused`; of many updates, all are marked. LEDGER_LIMIT,
 * LEDGER_DUPLICATE (also when an order to pay is not expired any more), LEDGER_LATE (its time was
 * over when all was written): at least one order caused it. Nothing is done then. `updates` are
 * sorted by sku and segment: all transactions lock the rows of segments in that order, which
 * prevents deadlocks.
 *
 * why_last: an order's time is checked after its key is written and before the COMMIT is sent. So
 * whoever looks for the key when that time is over, and does not find it even uncommitted
 * (ledger_keys_find), knows that this order is never committed, whatever hangs. */
enum ledger_result ledger_commit(struct ledger *ledger, struct ledger_stock_update *updates,
                                 size_t update_count, const struct ledger_order *orders,
                                 size_t order_count);

/* ---- unknown commits, and segments counted again ---- */

/* Settles an unknown commit: locks the row of one of its segments, which waits for the old
 * transaction to end, then looks for one of its orders by id, sale, round, user and key (another
 * process may have used the id for another order). If the update has a fence, raises the row's to
 * it, so that a transaction that has not begun yet is refused. LEDGER_OK: it was committed, and is
 * on disk. LEDGER_NO: it was not and never will be. LEDGER_FAILED: no answer now. Of an order with
 * a payment_ref it tells only that the old transaction is over: LEDGER_NO, and each order's payment
 * tells what became of it. */
enum ledger_result ledger_resolve(struct ledger *ledger, const struct ledger_stock_update *update,
                                  const struct ledger_order *order);

/* Raises the fences of the segments to the given ones where they are smaller, and reads the rows.
 * `segments` in: segment and fence; out: the row as it is now (its fence may be greater than the
 * one given; round 0: no such row, or it makes no sense). May be repeated. */
enum ledger_result ledger_recover(struct ledger *ledger, const char *sku,
                                  struct ledger_segment *segments, size_t count);

/* ---- what is visible made durable ---- */

/* Makes durable everything that this ledger has read on a connection, given by its number
 * (ledger_connection, asked after the reading). LEDGER_OK, LEDGER_UNKNOWN, or LEDGER_FAILED, also
 * when another connection is in use by now: then read again.
 *
 * why_a_write: InnoDB shows a commit to others before it is on disk, and a server that dies in
 * between forgets it. Our own commit, of anything, returns only when all earlier commits are on
 * disk.
 *
 * why_one_connection: a server that died after the reading may have forgotten what was read; a
 * commit at its successor proves nothing about it. */
enum ledger_result ledger_confirm(struct ledger *ledger, uint64_t connection);

/* ---- orders as the ledger has them ---- */

/* An order as it was written, with its present status. */
struct ledger_record {
    uint64_t order_id;
    char sku[IDENTIFIER_SIZE];
    char user_id[USER_ID_SIZE];
    char key[IDENTIFIER_SIZE]; /* "" for none */
    char status[16];           /* "": there is no such order */
    bool damaged;              /* its rows make no sense (ledger_fault): only the id is set */
    /* Set by ledger_pay alone; else false. */
    bool payable;    /* reserved, in time by the ledger's clock, and of the sale's present round */
    bool round_over; /* not paid, and the sale is in a later round or retired */
    char created_at[LEDGER_TIME_SIZE];
    char expires_at[LEDGER_TIME_SIZE]; /* "": never */
    uint32_t round;
    uint32_t qty;
    uint32_t ordered; /* units at first; 0: qty, as no part of the order was given back */
    uint32_t segment; /* the first one that its units were taken from */
    uint32_t version; /* 1, and one more for each change */
};

/* ---- orders by id and by key ---- */

/* Fills in up to LEDGER_ORDERS_MAX records by their `order_id`; ids may repeat. Orders found are
 * committed, perhaps not on disk yet (ledger_confirm). LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_orders_find(struct ledger *ledger, struct ledger_record *const *records,
                                      size_t count);

struct ledger_key {
    const char *user_id;
    const char *key;
    uint64_t order_id; /* out: 0 when there is no such key */
};

/* Looks up many idempotency keys in one query, including keys that an open transaction has written;
 * ledger_orders_find finds only committed orders and so tells them apart. Waits for no transaction,
 * locks nothing. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_keys_find(struct ledger *ledger, struct ledger_key *keys, size_t count);

/* ---- lists ---- */

enum {
    LEDGER_SCAN_MAX = 10000,        /* rows that one call reads to find the wanted ones */
    LEDGER_USER_ORDERS_MAX = 10000, /* orders of a user who can be listed */
    LEDGER_USER_IDS_MAX = 500,      /* of these in one page; MariaDB makes a subquery of 1000 */
};

/* Selects the orders of a listing; "" stands for any. */
struct ledger_filter {
    char sku[IDENTIFIER_SIZE];
    char user_id[USER_ID_SIZE];
    char status[16]; /* as ledger_status_name writes it */
};

/* Lists up to `max` orders with ids above `after`, sorted by id, without their keys; leaves out
 * damaged ones and notes them in ledger_fault. It reads at most LEDGER_SCAN_MAX rows along the
 * primary key; with a user in the filter, the user's keys (until ledger_purge deletes them) and
 * LEDGER_USER_IDS_MAX orders. So it may find fewer than there are: `next_out` is the id to go on
 * after; 0: there are no more. LEDGER_OK, LEDGER_LIMIT (the user has more than
 * LEDGER_USER_ORDERS_MAX orders) or LEDGER_FAILED. */
enum ledger_result ledger_orders_list(struct ledger *ledger, const struct ledger_filter *filter,
                                      uint64_t after, size_t max, struct ledger_record *orders_out,
                                      size_t *count_out, uint64_t *next_out);

/* ---- what users have ---- */

enum { LEDGER_QUOTA_ORDERS_MAX = 10 }; /* orders of one user that a refusal names */

/* The units of a user in a round of a sale with a limit per user. */
struct ledger_quota {
    const char *sku;
    const char *user_id;
    uint32_t round;
    uint32_t units;                              /* out: in orders that are reserved or paid */
    size_t order_count;                          /* out: how many of these orders are named */
    uint64_t order_ids[LEDGER_QUOTA_ORDERS_MAX]; /* out: the named orders, newest first */
};

/* Looks up many users, `count` <= LEDGER_ORDERS_MAX, in one query. `quotas` must be sorted by sku
 * and, within one sku, by user id (strcmp), each pair once. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_quotas_find(struct ledger *ledger, struct ledger_quota *quotas,
                                      size_t count);

/* ---- orders that were not paid in time ---- */

/* An order that is to expire. */
struct ledger_due {
    uint64_t order_id;
    char sku[IDENTIFIER_SIZE];
    uint32_t round;
    uint32_t qty;
};

/* The progress of ledger_due_list; all zero at the beginning. */
struct ledger_due_cursor {
    bool more; /* there may be more due orders after this one */
    char expires_at[LEDGER_TIME_SIZE];
    uint64_t first_id;
};

/* Lists at most `max` reserved orders whose time is over by the ledger's clock and moves `cursor`
 * on; leaves out damaged ones and notes them in ledger_fault. Earlier calls give the orders that
 * expire earlier; within a call they are sorted by id. A call may find none though `cursor->more`
 * says to go on. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_due_list(struct ledger *ledger, struct ledger_due_cursor *cursor,
                                   size_t max, struct ledger_due *due_out, size_t *count_out);

/* ---- orders that end, or keep a part of their units ---- */

enum {
    /* Orders of one return. MariaDB makes a subquery of a list of 1000 or more. */
    LEDGER_RETURNS_MAX = 900,
};

/* A segment that the caller has locked; returned units are taken off its `sold`. */
struct ledger_return_segment {
    const char *sku;
    uint32_t segment;
    uint32_t segments; /* of the sale, as far as the caller knows */
    uint64_t fence;    /* of the caller's lock */
    /* Out: the row as the transaction leaves it. Round 0: the ledger has no such row, another
     * transaction holds it, or it makes no sense. */
    struct ledger_segment row;
    uint32_t returned; /* out: units taken off `sold`; if any, the row's fence is the caller's */
};

struct ledger_return_order {
    uint64_t order_id;
    const char *payment_ref; /* of REFUNDED and RESERVED: the payment that pays it */
    uint32_t keep;           /* units that the order keeps, with its status; 0: it ends */
    bool unreturned;         /* its units are refunded and not put back on sale: they stay sold */
    bool round_over;         /* its sale is in a later round, so its units no longer exist */
    bool moved;              /* out: it has changed; not if it has no more than `keep` units */
    bool unmet;              /* out: the given segments of its sale have sold less than its units */
    bool damaged;            /* out: and so have all segments of its sale */
    /* Out, of REFUNDED and RESERVED without `keep`: the payment, due before, that pays the order
     * from now on, so that it stays paid; "": none. */
    char next_ref[USER_ID_SIZE];
};

/* Compares the ids of two struct ledger_return_order, for qsort and bsearch. */
static inline int ledger_return_order_compare(const void *left, const void *right)
{
    const struct ledger_return_order *a = left, *b = right;
    return (a->order_id > b->order_id) - (a->order_id < b->order_id);
}

/* Orders, of any sales, to cancel, expire, refund or unpay together. */
struct ledger_return {
    /* LEDGER_CANCELLED, LEDGER_EXPIRED; from paid LEDGER_REFUNDED, or LEDGER_RESERVED when the
     * payment has failed. */
    enum ledger_status to;
    struct ledger_return_order *orders;
    size_t order_count; /* 1..LEDGER_RETURNS_MAX, each id once, in the order of the ids */
    struct ledger_return_segment *segments;
    size_t segment_count; /* 0..LEDGER_SEGMENTS_MAX, sorted by sku and segment */
};

/* Changes, in one transaction, the statuses of the orders that may change, takes their units off
 * the given segments of their sales, in any parts, and gives them back to their users' quotas. An
 * order that has expired or becomes reserved gives no units back; the latter gets its sale's time
 * to pay anew. The payment that paid an order becomes refunded or failed with it. If another one is
 * due, that pays the order instead, which changes no further. Skips an order while another
 * transaction holds its row, and when the segments of its sale and round have sold less than its
 * units. Waits for no row of a segment or an order. LEDGER_NO: a segment refused, or a payment has
 * changed meanwhile, and nothing is done. May be repeated, after LEDGER_UNKNOWN as well: no unit is
 * returned twice. With any result but LEDGER_OK no order counts as moved. */
enum ledger_result ledger_return(struct ledger *ledger, struct ledger_return *returned);

/* ---- for sql/ only ---- */

/* Appends the statement that lets an order expire when its time is over, as it is now; none, if it
 * has no such time. */
void ledger_due_text(struct sql_text *sql, uint64_t order_id);

/* True when the update sets a fence of its own. */
static inline bool ledger_update_fenced(const struct ledger_stock_update *update)
{
    return update->guard == LEDGER_CHAIN || update->guard == LEDGER_FENCED;
}

/* The columns of a SELECT from orders o, and the reader of a row that begins with them. It returns
 * false, having noted the damage, when the row makes no sense. */
#define LEDGER_RECORD_COLUMNS(key)                                                                 \
    "o.order_id,o.sku,o.round,o.user_id,o.qty,o.segment," key ",o.status,o.created_at,o."          \
    "expires_at,o.ordered,COALESCE(o.version,1)"
bool ledger_record_read(struct ledger *ledger, struct ledger_record *record, char **row);

/* The condition, in SQL, under which the row `o` of orders may go to `to`. */
const char *ledger_status_condition(enum ledger_status to);

/* How a payment finds an order `o`, as the number of enum ledger_standing, for a statement that
 * locks the order: what is read of the sale stays so until the transaction ends. */
enum ledger_standing {
    LEDGER_UNSEEN, /* another transaction is changing the sale */
    LEDGER_IN_ROUND /* in the sale's present round, and in time by the ledger's clock */,
    LEDGER_OVERDUE, /* in the present round, and late; the sale lets late payments have units */
    LEDGER_OVER,    /* another round, no sale, or it has late payments refunded */
};
const char *ledger_status_standing(void);

/* What each statement that changes an order sets, too. */
#define LEDGER_VERSION_NEXT "version=COALESCE(version,1)+1"

/* The units of a sale that an order of a query holds, whatever its status. */
#define LEDGER_UNITS_HELD "(IF(status IN('reserved','paid'),qty,0)+COALESCE(unreturned,0))"

/* Statements that make the present transaction's commit do the work of ledger_confirm. */
extern const char ledger_confirm_text[];

#endif
