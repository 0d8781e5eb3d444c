/* What an audit adds up: orders, page by page along their ids, and the units counted for users. */
#ifndef SQL_LEDGER_AUDIT_H
#define SQL_LEDGER_AUDIT_H

#include "base/identifier.h"
#include "sql/ledger.h"

/* Rows that one call reads. */
enum { LEDGER_AUDIT_ROWS = 10000 };

enum ledger_audit_kind {
    LEDGER_AUDIT_ORDERS,   /* of the sale's round, by status */
    LEDGER_AUDIT_UNKEYED,  /* orders to which no row of order_key leads */
    LEDGER_AUDIT_UNLISTED, /* reserved orders that would never expire */
};

/* A sum over orders of one sku. The last two kinds are over orders of all rounds. */
struct ledger_audit_sum {
    enum ledger_audit_kind kind;
    char sku[IDENTIFIER_SIZE];
    uint32_t round;  /* the sale's present one */
    char status[16]; /* of LEDGER_AUDIT_ORDERS */
    uint64_t orders;
    uint64_t units;
    uint64_t weighed; /* units, each times a hash of its user: see ledger_audit_users */
};

/* Must not use the ledger. */
typedef void ledger_audit_visit(const struct ledger_audit_sum *sum, void *context);

/* Finds the id up to which a page goes that begins behind `after`: that of the LEDGER_AUDIT_ROWS-th
 * order; UINT64_MAX when there are fewer. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_audit_end(struct ledger *ledger, uint64_t after, uint64_t *end_out);

/* Adds up the orders with ids above `after`, up to `end`, by one statement, so that all sums belong
 * to one moment; only those of `sku`, unless it is "". Orders of retired sales count nowhere.
 * LEDGER_OK, or LEDGER_FAILED without any call of `visit`. */
enum ledger_result ledger_audit_orders(struct ledger *ledger, const char *sku, uint64_t after,
                                       uint64_t end, ledger_audit_visit *visit, void *context);

struct ledger_audit_users {
    uint64_t users;
    uint64_t units;   /* that are counted for them */
    uint64_t weighed; /* the same, each times the hash of its user */
    uint64_t above;   /* users with more than their limit */
    char next[USER_ID_SIZE];
};

/* Adds up the units counted for the next LEDGER_AUDIT_ROWS users of the round behind `after` (""
 * for the first). `next` is the user to go on after, "" when there are no more. `weighed` is
 * linear, so that sums over pages can be compared with those of orders: where it is the same, so is
 * what each user has, but for users whose hashes of 32 bits happen to be equal. LEDGER_OK or
 * LEDGER_FAILED. */
enum ledger_result ledger_audit_users(struct ledger *ledger, const char *sku, uint32_t round,
                                      const char *after, struct ledger_audit_users *users_out);

#endif
