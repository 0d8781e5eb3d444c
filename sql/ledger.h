/* Orders and segments as rows: what the ledger is asked, and what it accepts. */
#ifndef SQL_LEDGER_H
#define SQL_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sql/db.h"

enum {
    LEDGER_IDENTIFIER_SIZE = 65,  /* a sku, user id or idempotency key, with its NUL */
    LEDGER_SEGMENTS_MAX = 1024,   /* segments of one sale */
    LEDGER_ORDERS_MAX = 512,      /* orders of one commit */
    LEDGER_SEGMENT_SEVERAL = -1,  /* an order that several segments filled */
    LEDGER_TIME_SIZE = 25,        /* 2026-11-20T21:30:00.123Z with its NUL */
    LEDGER_QUOTA_ORDERS_MAX = 10, /* orders of one user that are named to him */
};

enum ledger_result {
    LEDGER_OK,
    LEDGER_NO,        /* no such row, or a guard refused the change: nothing is changed */
    LEDGER_DUPLICATE, /* an order with that id, or that user and key, is there already */
    LEDGER_LIMIT,     /* a user would be above his limit: nothing is changed */
    LEDGER_FAILED,    /* certainly not done */
    LEDGER_UNKNOWN,   /* the commit was not answered: ask with ledger_resolve */
};

/* The ledger as one thread sees it, over a connection of its own. */
struct ledger;

/* As db_open: does not connect yet. */
struct ledger *ledger_open(const char *url, int timeout_ms, char *error_out, size_t error_size);
void ledger_close(struct ledger **ledger);
const char *ledger_error(const struct ledger *ledger);
struct db_stats ledger_stats(const struct ledger *ledger);
enum ledger_result ledger_ping(struct ledger *ledger);

/* Creates or upgrades the tables, one daemon at a time under a server-side lock, and waits up to
 * 60 s for that lock. Harmless when everything is there. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_migrate(struct ledger *ledger);

/* Gives this process a node number for its order ids, 0..1023, that no daemon among the last 1023
 * started has. */
enum ledger_result ledger_node(struct ledger *ledger, unsigned *node_out);

/* Whether the server is set to have a commit on disk, and in the log that its replicas read, before
 * it says so. LEDGER_NO: it is not, and `why_out` names the setting; what was committed may be lost
 * with its machine. LEDGER_FAILED: it cannot be asked. */
enum ledger_result ledger_durable(struct ledger *ledger, char *why_out, size_t size);

/* ---- sales ---- */

/* What a sale may be changed in while it runs. Each change counts the version on, in the sale and
 * in all of its segments at once: a move made under older settings is refused. More units in mid-round
 * are such a change as well. */
struct ledger_settings {
    int64_t starts_ms; /* UTC, since 1970; 0: open from the beginning */
    int64_t ends_ms;   /* the first moment that is too late; 0: open until sold out */
    uint32_t version;
    uint32_t per_user_limit; /* units that one user may have in a round; 0: no limit */
    uint32_t pay_within_s;   /* after which an unpaid order expires; 0: never */
    bool paused;
};

struct ledger_sale {
    char sku[LEDGER_IDENTIFIER_SIZE];
    uint32_t round;
    uint32_t total;
    uint32_t segments;
    uint32_t sold; /* units in accepted orders of this round */
    struct ledger_settings settings;
};

struct ledger_segment {
    uint32_t segment;
    uint32_t round;
    uint32_t capacity;
    uint32_t sold;
    uint64_t fence;
};

/* LEDGER_NO: no such sale. */
enum ledger_result ledger_sale_find(struct ledger *ledger, const char *sku,
                                    struct ledger_sale *sale_out);

/* Finds many sales, `count` <= LEDGER_ORDERS_MAX, in one query: calls `visit`, which must not use
 * the ledger, with each that there is. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_sales_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context);

/* Sales after `after` ("" for the first) in order of their sku, at most `max`. */
enum ledger_result ledger_sale_list(struct ledger *ledger, const char *after, size_t max,
                                    struct ledger_sale *sales_out, size_t *count_out);

/* Calls `visit` with every sale in order of their sku, read page by page. On anything but LEDGER_OK
 * some may be missing. */
enum ledger_result ledger_sales_each(struct ledger *ledger,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context);

/* The segments of a sale as one consistent picture, in order; room for LEDGER_SEGMENTS_MAX.
 * LEDGER_NO: no such sale. */
enum ledger_result ledger_segments(struct ledger *ledger, const char *sku,
                                   struct ledger_segment *segments_out, size_t *count_out);

/* Begins the next round of a sale, or its first: `sale` has its sku, total, segments and settings (but
 * their version), and gets the rest. Nothing is sold. `fences` are those of the segment locks the
 * caller holds, one per segment of the old and the new round. On LEDGER_OK `segments_out` (room for
 * as many as it has) are its rows. On LEDGER_UNKNOWN the round may have begun. */
enum ledger_result ledger_reset(struct ledger *ledger, struct ledger_sale *sale,
                                const uint64_t *fences, struct ledger_segment *segments_out);

/* Changes the settings of a sale to `settings` if their version is still the one given. No move under
 * older settings is accepted after LEDGER_OK, and `settings` has the new version. `recount`: a limit is
 * set where there was none, so the orders that users have by now must be counted. LEDGER_NO: they
 * are others by now, or there is no such sale. LEDGER_UNKNOWN: read them again. */
enum ledger_result ledger_settings_change(struct ledger *ledger, const char *sku,
                                          struct ledger_settings *settings, bool recount);

/* ---- orders ---- */

struct ledger_allocation {
    uint32_t segment;
    uint32_t qty;
};

/* One order to be written. The pointers stay the caller's. */
struct ledger_order {
    uint64_t order_id;
    const char *sku;
    const char *user_id;
    const char *key; /* idempotency key; NULL or "" for none */
    uint32_t round;
    uint32_t qty;
    int32_t segment;                             /* or LEDGER_SEGMENT_SEVERAL */
    const struct ledger_allocation *allocations; /* of an order that several segments filled */
    size_t allocation_count;
    int64_t created_ms; /* UTC, since 1970 */
    uint32_t limit;     /* units its user may have in this round; 0: no limit, and not counted */
    int64_t expires_ms; /* the same; when it expires unless it is paid, 0: never */
};

/* From which fence a segment may move, and to which. Every guard also wants round and settings, and
 * that the units are there. */
enum ledger_guard {
    LEDGER_CHAIN,    /* from `settled`, which is smaller than `fence`, to `fence` */
    LEDGER_FENCED,   /* from any that is smaller than `fence`, to `fence` */
    LEDGER_EPOCH,    /* from `settled`, and it stays */
    LEDGER_UNFENCED, /* from any to the next number: who moves along the chain must notice */
};

/* One step of a segment along its chain of fences. */
struct ledger_stock_update {
    const char *sku;
    uint32_t segment;
    uint32_t round;
    uint32_t units;            /* sold more */
    uint64_t fence;            /* of the lock under which they were taken */
    uint64_t settled;          /* the fence at which the segment was settled when they were taken */
    uint32_t settings_version; /* version of the settings the orders were decided by */
    enum ledger_guard guard;
    bool refused; /* out: this segment's guard refused the step */
};

/* One transaction: inserts the orders and moves each segment on. A segment moves only as its guard
 * allows; if one does not, nothing is done and its `refused` is set (LEDGER_NO). Without locks on
 * the segments the moves must be in order of sku and segment, or such transactions deadlock.
 * LEDGER_LIMIT and LEDGER_DUPLICATE: nothing is done either, for the sake of at least one of the
 * orders. */
enum ledger_result ledger_commit(struct ledger *ledger, struct ledger_stock_update *moves,
                                 size_t move_count, const struct ledger_order *orders,
                                 size_t order_count);

/* What to write, as for ledger_commit. */
struct ledger_plan {
    struct ledger_stock_update *moves;
    size_t move_count;
    const struct ledger_order *orders;
    size_t order_count;
};

/* As ledger_commit, in one transaction with a SELECT ... FOR UPDATE of the sale's segments, for
 * `plan` to say by them what to write. It is called again when the transaction is repeated.
 * LEDGER_NO also when there is no such sale or it plans no order. */
enum ledger_result ledger_commit_locked(struct ledger *ledger, const char *sku,
                                        void (*plan)(void *context,
                                                     const struct ledger_segment *rows,
                                                     size_t count, struct ledger_plan *plan_out),
                                        void *context);

/* Settles an unknown commit: locks the row of one of its segments, which waits for the old
 * transaction to end, then looks for one of its orders. Where the move has a fence, the row's is
 * raised to that. LEDGER_OK: it was committed, LEDGER_NO: it was not and never will be,
 * LEDGER_FAILED: the ledger cannot be asked now. */
enum ledger_result ledger_resolve(struct ledger *ledger, const struct ledger_stock_update *move,
                                  uint64_t order_id);

/* Raises the fences of the segments to the given ones where they are smaller, and reads the rows.
 * `segments` in: segment and fence; out: the row as it is now (its fence may be ahead of the one
 * given; round 0: there is no such row). Can always be repeated. */
enum ledger_result ledger_recover(struct ledger *ledger, const char *sku,
                                  struct ledger_segment *segments, size_t count);

/* An order as it was written. */
struct ledger_record {
    uint64_t order_id;
    char sku[LEDGER_IDENTIFIER_SIZE];
    char user_id[LEDGER_IDENTIFIER_SIZE];
    char key[LEDGER_IDENTIFIER_SIZE]; /* "" for none */
    char status[16];
    char created_at[LEDGER_TIME_SIZE];
    char expires_at[LEDGER_TIME_SIZE]; /* "": never */
    uint32_t round;
    uint32_t qty;
    int32_t segment;
    struct ledger_allocation allocations[LEDGER_SEGMENTS_MAX];
    size_t allocation_count;
};

/* LEDGER_NO: no such order. */
enum ledger_result ledger_order_find(struct ledger *ledger, uint64_t order_id,
                                     struct ledger_record *record_out);

struct ledger_key {
    const char *user_id;
    const char *key;
    uint64_t order_id; /* out: 0 when there is no order with that key */
    char sku[LEDGER_IDENTIFIER_SIZE];
    uint32_t qty;
};

/* Looks up many idempotency keys in one query. */
enum ledger_result ledger_keys_find(struct ledger *ledger, struct ledger_key *keys, size_t count);

/* What a user has in a round whose sale has a limit. */
struct ledger_quota {
    const char *sku;
    const char *user_id;
    uint32_t round;
    uint32_t units;                              /* out: in his orders that are reserved or paid */
    size_t order_count;                          /* out: of these orders, as many as are named */
    uint64_t order_ids[LEDGER_QUOTA_ORDERS_MAX]; /* out: newest first */
};

/* Looks up many users, `count` <= LEDGER_ORDERS_MAX, in one query. They stand in the order of their
 * skus and, within one, of their user ids (strcmp), each pair once. */
enum ledger_result ledger_quotas_find(struct ledger *ledger, struct ledger_quota *quotas,
                                      size_t count);

/* Writes ms since 1970 as 2026-11-20T21:30:00.123Z. */
void ledger_time_format(int64_t ms, char out[LEDGER_TIME_SIZE]);

#endif
