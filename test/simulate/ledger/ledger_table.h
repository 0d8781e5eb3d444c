/* The simulated ledger's tables: rows in three versions, row locks, and transactions.
 *
 * A row has the version that the present transaction sees, the last committed one, and the one on
 * the disk, which is what a crash of the server leaves. A transaction locks every row that it
 * changes until it ends; others wait for it, or see the committed version. */
#ifndef SIMULATE_LEDGER_TABLE_H
#define SIMULATE_LEDGER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sql/ledger/ledger.h"
#include "sql/payments/payments.h"
#include "sql/sales/sales.h"

enum { NAME_MAX_SIZE = 24, TXN_ROWS_MAX = 256, TABLE_ROWS_MAX = 512 };

enum table {
    TABLE_SALE,
    TABLE_SEGMENT,
    TABLE_ORDER,
    TABLE_KEY,
    TABLE_QUOTA,
    TABLE_EXPIRY,
    TABLE_COUNT,
    TABLE_RESTOCK,
    TABLE_RESET,
    TABLE_ROUND_END,
    TABLE_SALE_ROUND,
    TABLE_PAYMENT,
    TABLE_DUE, /* refund_due */
    TABLE_EVENT,
    TABLE_FEED, /* of one row */
    TABLE_EVENT_SALE,
    TABLES
};

struct sale_row {
    uint32_t round, total, segments;
    struct ledger_settings settings; /* `counting` is another table */
    uint64_t restocked;              /* units added in all rounds, for the simulation alone */
    uint32_t unpaid;                 /* unpaid_count */
};

struct segment_row {
    uint32_t segment, round, capacity, sold, settings_version;
    uint64_t fence;
};

struct order_row {
    uint64_t order_id;
    uint32_t version;
    uint32_t round, qty;
    uint32_t ordered, unreturned; /* 0: qty, and none */
    uint32_t segment;
    enum ledger_status status;
    int64_t created_ms, expires_ms; /* 0: never */
    uint32_t grace_s;
};

struct quota_row {
    uint32_t round, units, allowed;
    size_t id_count;
    uint64_t ids[LEDGER_QUOTA_ORDERS_MAX]; /* newest first */
};

struct expiry_row {
    int64_t expires_ms;
    uint64_t first_id, last_id;
};

struct count_row {
    uint32_t round;
    bool cleared;
    uint64_t counted_to, last_id;
};

struct restock_row {
    uint32_t units, round;
};

struct reset_row {
    struct sale_row sale; /* as it was then */
    const char *request;
};

struct round_end_row {
    uint32_t round, units;
    uint64_t next_id; /* 0: none */
};

struct sale_round_row {
    uint32_t round, segments;
    bool retired;
    uint64_t last_id;
    uint64_t restocked; /* of a retired sale: see sale_row */
};

/* Its `key` is what the shop calls it. */
struct payment_row {
    uint64_t order_id;
    enum ledger_payment_state state; /* of TABLE_PAYMENT, as the next one */
    enum ledger_payment_outcome outcome;
    bool elsewhere; /* of TABLE_DUE: not counted any more */
};

struct event_row {
    uint64_t id, position; /* 0: it is not published */
    uint32_t events;
    int64_t written_ms;
    const char *body;
};

struct feed_row {
    uint64_t next, oldest;
};

struct event_sale_row {
    uint32_t round, settings_version;
    bool sold_out;
    uint32_t quiet; /* later versions in which nothing changed, for the simulation alone */
};

struct version {
    bool there;
    char sku[NAME_MAX_SIZE], user_id[NAME_MAX_SIZE], key[NAME_MAX_SIZE];
    union {
        struct sale_row sale;
        struct segment_row segment;
        struct order_row order;
        uint64_t key_order_id;
        struct quota_row quota;
        struct expiry_row expiry;
        struct count_row count;
        struct restock_row restock;
        struct reset_row reset;
        struct round_end_row round_end;
        struct sale_round_row sale_round;
        struct payment_row payment;
        struct event_row event;
        struct feed_row feed;
        struct event_sale_row event_sale;
    };
};

struct row {
    enum table table;
    struct txn *owner;                /* who has locked it */
    bool on_disk;                     /* `disk` is `was` */
    int64_t committed_ns, changed_ns; /* since when it is there; the last change */
    struct version now, was, disk;
    struct version before; /* the last commit: what it has replaced */
};

struct txn {
    struct row *rows[TXN_ROWS_MAX];
    size_t count;
    struct txn *waits_for;
    bool wrote, ended;
};

/* Empties all tables, but for the feed, which begins. */
void tables_begin(void);

/* The i-th row of a table, there or not; NULL: there are no more. */
struct row *table_row(enum table table, size_t i);

/* The version of a row that a transaction sees; with NULL, the one all others see. */
const struct version *row_seen(const struct row *row, const struct txn *txn);

/* What a row is found by; a table looks only at what its own key needs. */
struct row_key {
    const char *sku, *user_id, *key;
    uint32_t round, segment;
    uint64_t order_id;
    int64_t moment_ms;
};

/* The row with that key in any version; NULL when there is no such row. */
struct row *row_find(enum table table, const struct row_key *key);
struct row *row_of_sale(const char *sku);
struct row *row_of_segment(const char *sku, uint32_t segment);
struct row *row_of_order(uint64_t order_id);
struct row *row_of_key(const char *user_id, const char *key);
struct row *row_of_quota(const char *sku, uint32_t round, const char *user_id);
struct row *row_of_count(const char *sku);
struct row *row_of_restock(const char *sku, const char *key);
struct row *row_of_reset(const char *sku, const char *key);
struct row *row_of_round_end(const char *sku, uint32_t round);
struct row *row_of_payment(uint64_t order_id, const char *ref);
struct row *row_of_due(uint64_t order_id, const char *ref);

/* A new row that is not there yet. */
struct row *row_make(enum table table);

/* The next id of a batch of events, whether the transaction that asks for it commits or not. The
 * ids of batches that a server had not on its disk when it died are given again. */
uint64_t table_event_id(void);

/* ---- transactions ---- */

struct txn *txn_begin(void);

/* Locks a free row. False when another transaction or this one has it already. */
bool txn_take(struct txn *txn, struct row *row);

/* Gives back a row that it has not changed. */
void txn_give(struct txn *txn, struct row *row);

/* The row's present version, to be changed; it is the transaction's. */
struct version *txn_change(struct txn *txn, struct row *row);

/* Changes the status of an order that it has locked. */
void order_becomes(struct txn *txn, struct row *row, enum ledger_status status);

/* Ends it: all of its rows become visible, or are as before. */
void txn_commit(struct txn *txn);
void txn_rollback(struct txn *txn);

/* Rolls back all that have not ended. */
void txn_rollback_all(void);

/* All that is committed is on the disk; all that is not is lost. */
void tables_sync(void);
void tables_lose(void);

/* Called after each commit, and after each end of a transaction. */
void tables_on_commit(void (*notice)(const struct txn *txn));
void tables_on_end(void (*notice)(void));

#endif
