/* Orders found by their ids and by their idempotency keys. */
#ifndef SQL_LEDGER_LOOKUP_H
#define SQL_LEDGER_LOOKUP_H

#include "sql/ledger_commit.h"
#include "sql/ledger_time.h"

/* An order as it was written, with its present status. */
struct ledger_record {
    uint64_t order_id;
    char sku[IDENTIFIER_SIZE];
    char user_id[IDENTIFIER_SIZE];
    char key[IDENTIFIER_SIZE]; /* "" for none */
    char status[16];
    char created_at[LEDGER_TIME_SIZE];
    char expires_at[LEDGER_TIME_SIZE]; /* "": never */
    uint32_t round;
    uint32_t qty;
    int32_t segment; /* or LEDGER_SEGMENT_SEVERAL */
    struct ledger_allocation allocations[LEDGER_SEGMENTS_MAX];
    size_t allocation_count;
};

/* LEDGER_NO: no such order. */
enum ledger_result ledger_order_find(struct ledger *ledger, uint64_t order_id,
                                     struct ledger_record *record_out);

struct ledger_key {
    const char *user_id;
    const char *key;
    uint64_t order_id; /* out: 0 when there is no order with that key; then the rest is not set */
    char sku[IDENTIFIER_SIZE];
    uint32_t qty;
};

/* Looks up many idempotency keys in one query. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_keys_find(struct ledger *ledger, struct ledger_key *keys, size_t count);

#endif
