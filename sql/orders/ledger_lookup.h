/* Orders found by their ids and by their idempotency keys. */
#ifndef SQL_LEDGER_LOOKUP_H
#define SQL_LEDGER_LOOKUP_H

#include "sql/orders/ledger_record.h"

/* Looks up the orders that the records name by their `order_id`, up to LEDGER_ORDERS_MAX of them,
 * and fills the records in; an id may come more than once. What it finds is committed, though
 * perhaps not on the disk yet, see ledger_confirm. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_orders_find(struct ledger *ledger, struct ledger_record *const *records,
                                      size_t count);

struct ledger_key {
    const char *user_id;
    const char *key;
    uint64_t order_id; /* out: 0 when there is no such key */
};

/* Looks up many idempotency keys in one query, also those that a transaction under way has written
 * and not committed: ledger_orders_find tells the orders of these from others. It waits for no
 * transaction and locks nothing. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_keys_find(struct ledger *ledger, struct ledger_key *keys, size_t count);

#endif
