/* Sales in the ledger: their settings, stock and rounds, from the first reset to the last purge. */
#ifndef SQL_SALES_H
#define SQL_SALES_H

#include "sql/ledger/ledger.h"

/* ---- sales ---- */

/* Settings that may change while a sale runs. Each change and each restock increments the version
 * in the sale and all of its segments at once, so that the ledger refuses updates by older ones. */
struct ledger_settings {
    int64_t starts_ms; /* UTC, since 1970; 0: open from the beginning */
    int64_t ends_ms;   /* the first moment that is too late; 0: open until sold out */
    uint32_t version;
    uint32_t per_user_limit; /* units that one user may buy in a round; 0: no limit */
    uint32_t pay_within_s;   /* after which an unpaid order expires; 0: never */
    uint32_t hold_max_s;     /* after its creation an order may be held by extensions; 0: none */
    uint32_t grace_s;        /* after its expiry an order accepted from now on can still be paid */
    bool refund_late;        /* late payments are refunded; else their orders get units again */
    bool paused;
    bool counting; /* the sale is closed while its users' units are counted for a new limit */
};

struct ledger_sale {
    char sku[IDENTIFIER_SIZE];
    uint32_t round;
    uint32_t total;
    uint32_t segments;
    uint32_t sold; /* units in accepted orders of this round */
    struct ledger_settings settings;
};

/* LEDGER_NO: no such sale. LEDGER_DAMAGED: its row makes no sense. */
enum ledger_result ledger_sale_find(struct ledger *ledger, const char *sku,
                                    struct ledger_sale *sale_out);

/* Finds up to LEDGER_ORDERS_MAX sales in one query and calls `visit`, which must not use the
 * ledger, with each that exists. LEDGER_OK, LEDGER_FAILED, or LEDGER_DAMAGED: a sale whose row
 * makes no sense was left out. */
enum ledger_result ledger_sales_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context);

/* Lists the first `max` sales after `after` ("" for the first) in order of sku; leaves out damaged
 * rows and notes them in ledger_fault. LEDGER_OK, LEDGER_FAILED; LEDGER_DAMAGED: too many were. */
enum ledger_result ledger_sale_list(struct ledger *ledger, const char *after, size_t max,
                                    struct ledger_sale *sales_out, size_t *count_out);

/* Calls `visit` with every sale in order of sku, in pages. Unless LEDGER_OK, sales may be
 * missing. */
enum ledger_result ledger_sales_each(struct ledger *ledger,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context);

/* ---- settings ---- */

/* Changes a sale's settings to `settings` if their version is still current, and sets the new
 * version there. After LEDGER_OK no stock update decided by older settings is accepted.
 * `begins_count`: a limit is set where there was none, so the sale stays closed until
 * ledger_count_step has counted what its users have, or the limit is removed. LEDGER_NO: the
 * version has changed, or there is no such sale. LEDGER_UNKNOWN: read the settings again. */
enum ledger_result ledger_settings_change(struct ledger *ledger, const char *sku,
                                          struct ledger_settings *settings, bool begins_count);

/* ---- stock ---- */

/* Bounds a query's rows in memory: 65,536 (5 MB) if all sales have LEDGER_SEGMENTS_MAX segments. */
enum { LEDGER_STOCK_SKUS_MAX = 64 };

/* Gets a sale with its units sold and its round's segments in order. Must not use the ledger. */
typedef void ledger_stock_visit(const struct ledger_sale *sale,
                                const struct ledger_segment *segments, size_t count, void *context);

/* Reads the sales of `count` <= LEDGER_STOCK_SKUS_MAX different skus and their segments in one
 * statement, as of one moment, and calls `visit` with each that exists. For an audit, `as_it_is`:
 * segments may be missing or have sold more than their capacity. LEDGER_OK; LEDGER_FAILED without
 * any call; LEDGER_DAMAGED: a sale whose rows make no sense was left out. */
enum ledger_result ledger_stock_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     bool as_it_is, ledger_stock_visit *visit, void *context);

/* ---- resets ---- */

enum { LEDGER_RESET_TEXT_MAX = 256 }; /* bytes of a reset's request, with its NUL */

struct ledger_reset {
    const char *key;        /* idempotency key; NULL or "" for none */
    const char *request;    /* with a key: the caller's own text of the request */
    const uint64_t *fences; /* of the locks of all segments of the old and of the new round */
    bool end_round;         /* even if orders of the old round hold units */
    uint32_t held;          /* out: units that orders of the old round hold */
};

/* Begins the next round of a sale, or its first. `sale` in: sku, total, segments, settings, and the
 * round and settings' version that the caller has read (0 if there was no sale); out, on LEDGER_OK:
 * the new round and version, with nothing sold; `segments_out` (room for `sale->segments`) gets the
 * new rows. From then on no order of the old round can be paid, and ledger_round_end_step ends the
 * reserved ones. LEDGER_NO: orders of the old round hold units (`held` > 0) and `end_round` is off,
 * or (`held` is 0) the round or the version has changed. LEDGER_DUPLICATE: the key has been used.
 * LEDGER_UNKNOWN: the round may have begun; a call with a key may be repeated, and waits for the
 * first try to end. */
enum ledger_result ledger_reset(struct ledger *ledger, struct ledger_reset *reset,
                                struct ledger_sale *sale, struct ledger_segment *segments_out);

/* Finds the reset made under a key: the sale as it was then, the request, and whether the sale has
 * been retired since. LEDGER_NO: no such reset. */
enum ledger_result ledger_reset_find(struct ledger *ledger, const char *sku, const char *key,
                                     struct ledger_sale *sale_out,
                                     char request_out[LEDGER_RESET_TEXT_MAX], bool *retired_out);

/* ---- restocks ---- */

struct ledger_restock {
    const char *sku;
    const char *key; /* idempotency key; "" for none */
    uint32_t units;
    uint32_t total_max;     /* bound on the sale's total with these units */
    const uint64_t *fences; /* of the locks of all segments */
    size_t fence_count;
    bool too_many; /* out: with LEDGER_NO, the total would exceed total_max */
};

/* Adds the units in one transaction and levels the segments: all have the same left, give or take
 * one unit, so some may lose units. Increments the settings' version. On LEDGER_OK `sale_out` and
 * `segments_out` (room for `fence_count`) are as they are now. LEDGER_NO: there is no such sale,
 * its number of segments has changed, or it would exceed `total_max`. LEDGER_DUPLICATE: the key has
 * been used. LEDGER_UNKNOWN: as for ledger_reset. */
enum ledger_result ledger_restock(struct ledger *ledger, struct ledger_restock *restock,
                                  struct ledger_sale *sale_out,
                                  struct ledger_segment *segments_out);

/* Finds the units added under a key, and their round. LEDGER_NO: no such restock. */
enum ledger_result ledger_restock_find(struct ledger *ledger, const char *sku, const char *key,
                                       uint32_t *units_out, uint32_t *round_out);

/* ---- the orders of a round ---- */

/* Orders have no index by sale. So their table is read in pieces, from the newest order back, until
 * all units are found that the round's orders hold. ledger_purge and each function below whose name
 * ends in _step does one piece, in a short transaction that notes its progress and locks nothing
 * that orders of other sales need. Any process may call them at any time; concurrent calls take
 * turns. LEDGER_OK: go on. LEDGER_FAILED, LEDGER_UNKNOWN: going on later is harmless. */

/* Orders of a round that hold units, counted so far. */
struct ledger_round_use {
    uint32_t reserved, paid; /* orders */
    uint32_t units;          /* in these orders */
    bool all_read;           /* there are no older orders */
    uint64_t next_id;        /* reading goes on below this id; 0: it begins */
};

/* Reads on, past at most `rows` orders of any sale. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_round_count(struct ledger *ledger, const char *sku, uint32_t round,
                                      uint32_t rows, struct ledger_round_use *use);

/* Finds a round that a reset has ended and that may have reserved orders. LEDGER_NO: none. */
enum ledger_result ledger_round_end_find(struct ledger *ledger, char sku_out[IDENTIFIER_SIZE],
                                         uint32_t *round_out);

/* Ends more reserved orders of such a round, past at most `rows` orders of any sale. `ended_out`
 * counts the orders that it has expired. LEDGER_NO: nothing is left to do. */
enum ledger_result ledger_round_end_step(struct ledger *ledger, const char *sku, uint32_t round,
                                         uint32_t rows, uint32_t *ended_out);

/* ---- counting for a new limit ---- */

/* Finds a sale that ledger_settings_change has closed to be counted. LEDGER_NO: there is none. */
enum ledger_result ledger_count_find(struct ledger *ledger, char sku_out[IDENTIFIER_SIZE]);

/* Counts on in a sale, past at most `rows` orders of any sale, and opens it when all are counted.
 * LEDGER_NO: the sale is not being counted, as after the step that opens it. */
enum ledger_result ledger_count_step(struct ledger *ledger, const char *sku, uint32_t rows);

/* ---- the end of a sale ---- */

enum { LEDGER_HELD_ROWS = 50000 }; /* orders of any sale that one call reads */

/* The orders of a sale's round that hold units, counted in pieces. */
struct ledger_held {
    char sku[IDENTIFIER_SIZE];
    uint32_t round;
    uint64_t reserved, paid; /* orders */
    uint64_t units;          /* in these orders */
    uint32_t refunds_due;    /* by ledger_retire: payments due back, of its orders of all rounds */
    uint64_t fences, sold;   /* sums over the segments before the count; any order changes one */
    uint64_t first_id;       /* where the count began: a guess */
    uint64_t counted_to;     /* orders from first_id, or from 0, up to this id have been read */
    bool from_zero;          /* the orders before first_id are read, too */
    bool begun, done;
};

/* Begins or continues the count of the orders of the sale's round, past at most LEDGER_HELD_ROWS
 * orders. `held` is zero at first. Done: the orders found hold as many units as the segments had
 * sold, or all orders have been read. LEDGER_OK, LEDGER_FAILED, or LEDGER_NO: orders of an earlier
 * round may still be reserved, as long as ledger_round_end_find finds that round. */
enum ledger_result ledger_held_count(struct ledger *ledger, const struct ledger_sale *sale,
                                     struct ledger_held *held);

/* Ends a sale whose count found no reserved order. Deletes its row and its segments, and notes its
 * round, from which a later sale of the sku counts on. LEDGER_NO: nothing is done, because payments
 * are due back (`refunds_due` > 0) and are not made `refunds_elsewhere`, or because the sale is
 * gone, has another round, or its segments have changed: count again. LEDGER_UNKNOWN: the sale
 * may be gone; another call waits for the first try to end. */
enum ledger_result ledger_retire(struct ledger *ledger, const struct ledger_sale *sale,
                                 struct ledger_held *held, bool refunds_elsewhere);

/* Finds how many segments the sku's last retired sale had. LEDGER_NO: no sale was retired. */
enum ledger_result ledger_retired_find(struct ledger *ledger, const char *sku,
                                       uint32_t *segments_out);

/* ---- retention ---- */

/* The rows that one call of ledger_purge has deleted. */
struct ledger_purged {
    char sku[IDENTIFIER_SIZE]; /* of the round at work */
    uint32_t round;
    uint64_t keys;  /* idempotency keys of orders */
    uint64_t users; /* rows of what users had */
    bool done;      /* nothing more is to be deleted of this round */
};

/* Deletes about `rows` rows of a round that ended more than `days` ago: the keys of its orders, by
 * which their users list them as well, and its users' quotas. Orders stay. LEDGER_NO: none. */
enum ledger_result ledger_purge(struct ledger *ledger, unsigned days, unsigned rows,
                                struct ledger_purged *purged_out);

/* ---- audits ---- */

enum { LEDGER_AUDIT_ROWS = 10000 }; /* rows that one call reads */

enum ledger_audit_kind {
    LEDGER_AUDIT_ORDERS,    /* of the sale's round, by status */
    LEDGER_AUDIT_UNKEYED,   /* orders to which no row of order_key leads */
    LEDGER_AUDIT_UNLISTED,  /* reserved orders that would never expire */
    LEDGER_AUDIT_PAYMENTS,  /* payments, by state */
    LEDGER_AUDIT_UNMATCHED, /* orders that contradict their payments */
};

/* A sum over orders of one sku. All kinds but the first cover orders of all rounds. */
struct ledger_audit_sum {
    enum ledger_audit_kind kind;
    char sku[IDENTIFIER_SIZE];
    uint32_t round;  /* the sale's present one */
    char status[16]; /* of LEDGER_AUDIT_ORDERS; of LEDGER_AUDIT_PAYMENTS the state */
    uint64_t orders; /* or payments */
    /* Of LEDGER_AUDIT_ORDERS: */
    uint64_t units;      /* that the orders hold, and were not put back on sale */
    uint64_t weighed;    /* units, each times a hash of its user: see ledger_audit_users */
    uint64_t unreturned; /* units among them that were refunded */
};

/* Must not use the ledger. */
typedef void ledger_audit_visit(const struct ledger_audit_sum *sum, void *context);

/* Finds the last id of a page that begins after `after`, that of the LEDGER_AUDIT_ROWS-th order;
 * UINT64_MAX when there are fewer. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_audit_end(struct ledger *ledger, uint64_t after, uint64_t *end_out);

/* Adds up the orders with ids above `after`, up to `end`, in one statement, as of one moment; only
 * those of `sku`, unless it is "". Leaves out orders of retired sales. LEDGER_OK, or LEDGER_FAILED
 * without any call of `visit`. */
enum ledger_result ledger_audit_orders(struct ledger *ledger, const char *sku, uint64_t after,
                                       uint64_t end, ledger_audit_visit *visit, void *context);

struct ledger_audit_users {
    uint64_t users;
    uint64_t units;   /* counted for them */
    uint64_t weighed; /* the same, each times the hash of its user */
    uint64_t above;   /* users with more than their limit */
    char next[USER_ID_SIZE];
};

/* Adds up the units counted for the next LEDGER_AUDIT_ROWS users of the round after `after` ("" for
 * the first). `next` is the user to go on after, "" when there are no more. `weighed` is linear, so
 * sums over pages compare with those of orders: equal sums mean equal units of each user, unless
 * 32-bit hashes of users collide. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_audit_users(struct ledger *ledger, const char *sku, uint32_t round,
                                      const char *after, struct ledger_audit_users *users_out);

/* ---- for sql/ only ---- */

/* The columns of a SELECT from `sale`, with the expression that counts the units sold. */
#define LEDGER_SALE_COLUMNS(sold)                                                                  \
    "sale.sku,sale.round,total,segments," sold                                                     \
    ",sale.settings_version," LEDGER_MS_OF("starts_at") "," LEDGER_MS_OF(                          \
        "ends_at") ",per_user_limit,pay_within_s,paused,"                                          \
                   "EXISTS(SELECT 1 FROM quota_count c WHERE c.sku=sale.sku AND "                  \
                   "c.round=sale.round),refund_late,hold_max_s,grace_s"

enum { LEDGER_SALE_WIDTH = 15 }; /* columns */

/* Reads one row of these columns. False, having noted the damage, when it makes no sense. */
bool ledger_sale_read(struct ledger *ledger, struct ledger_sale *sale, char **row);

/* Appends the settings without their version as assignments, with a comma at the end. */
void ledger_settings_text(struct sql_text *sql, const struct ledger_settings *settings);

#endif
