/* Units per user in sales with a limit: counted with each order, given back with each that ends. */
#ifndef SQL_USER_QUOTA_H
#define SQL_USER_QUOTA_H

#include "sql/ledger_commit.h"
#include "sql/sql_text.h"

/* Each appends one statement, with its semicolon, to be run in the transaction that changes the
 * orders. */

/* The statement that counts orders, before and behind its rows; %d: LEDGER_QUOTA_ORDERS_MAX. */
#define USER_QUOTA_INSERT "INSERT INTO user_quota(sku,round,user_id,units,allowed,order_ids)VALUES"
#define USER_QUOTA_ADD                                                                             \
    "ON DUPLICATE KEY UPDATE units=units+VALUES(units),allowed=VALUES(allowed),order_ids="         \
    "SUBSTRING_INDEX(CONCAT(VALUES(order_ids),IF(order_ids='','',','),order_ids),',',%d)"

/* Counts new orders, which all have a limit; nothing when there are none. A user who would be above
 * his limit fails the statement (DB_CHECK). `orders` in the order of their users, so that
 * transactions that meet in several rows wait for each other and do not deadlock. */
void user_quota_text_count(struct sql_text *sql, const struct ledger_order *const *orders,
                           size_t count);

/* Gives the units of an order back that is cancelled or has expired. Without effect in a sale whose
 * orders are not counted. */
void user_quota_text_return(struct sql_text *sql, const char *sku, uint32_t round,
                            const char *user_id, uint64_t order_id, uint32_t qty);

/* Forgets what was counted in a sale, in all of its rounds. */
void user_quota_text_forget(struct sql_text *sql, const char *sku);

/* Counts a sale's present round from its orders: they were not counted while it had no limit. It
 * reads all orders. Who has more than `limit` keeps it. */
void user_quota_text_recount(struct sql_text *sql, const char *sku, uint32_t limit);

#endif
