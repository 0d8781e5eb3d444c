/* What users have in sales with a limit per user, looked up. */
#ifndef SQL_LEDGER_QUOTA_H
#define SQL_LEDGER_QUOTA_H

#include "sql/ledger.h"

enum { LEDGER_QUOTA_ORDERS_MAX = 10 }; /* orders of one user that a refusal names */

/* What a user has in a round of a sale with a limit per user. */
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

#endif
