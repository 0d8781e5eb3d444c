/* Private to sql/: units per user in sales with a limit, as SQL. */
#ifndef SQL_USER_QUOTA_H
#define SQL_USER_QUOTA_H

#include "sql/ledger_commit.h"
#include "sql/sql_text.h"

/* The statement that counts orders, before and after its rows; %d: LEDGER_QUOTA_ORDERS_MAX. */
#define USER_QUOTA_INSERT "INSERT INTO user_quota(sku,round,user_id,units,allowed,order_ids)VALUES"
#define USER_QUOTA_ADD                                                                             \
    "ON DUPLICATE KEY UPDATE units=units+VALUES(units),allowed=VALUES(allowed),order_ids="         \
    "SUBSTRING_INDEX(CONCAT(VALUES(order_ids),IF(order_ids='','',','),order_ids),',',%d)"

/* Each function below appends one statement, with its semicolon, for the transaction that changes
 * the orders. */

/* Gives back the units of an order that is cancelled or expires. It has no effect in a sale whose
 * orders are not counted. */
void user_quota_text_return(struct sql_text *sql, const char *sku, uint32_t round,
                            const char *user_id, uint64_t order_id, uint32_t qty);

/* Deletes what was counted in all rounds of a sale. */
void user_quota_text_forget(struct sql_text *sql, const char *sku);

/* Counts the orders of a sale's present round, which were not counted while it had no limit. It
 * reads all orders. A user who has more than `limit` keeps it. */
void user_quota_text_recount(struct sql_text *sql, const char *sku, uint32_t limit);

#endif
