/* Private to sql/: units per user in sales with a limit, as SQL. */
#ifndef SQL_USER_QUOTA_H
#define SQL_USER_QUOTA_H

#include <assert.h>

#include "sql/orders/orders.h"
#include "sql/db/sql_text.h"

/* The statement that counts orders, before and after its rows. */
#define USER_QUOTA_INSERT "INSERT INTO user_quota(sku,round,user_id,units,allowed,order_ids)VALUES"
#define USER_QUOTA_ADD                                                                             \
    "ON DUPLICATE KEY UPDATE units=units+VALUES(units),allowed=VALUES(allowed),order_ids="         \
    "SUBSTRING_INDEX(CONCAT(VALUES(order_ids),IF(order_ids='','',','),order_ids),',',10)"
static_assert(LEDGER_QUOTA_ORDERS_MAX == 10, "as USER_QUOTA_ADD has it");

/* An order whose units go back to its user. */
struct user_quota_return {
    char sku[IDENTIFIER_SIZE];
    char user_id[USER_ID_SIZE];
    uint64_t order_id;
    uint32_t round;
    uint32_t qty;
    bool stays; /* the order keeps other units, so it stays in the user's list */
};

/* Appends a statement, with its semicolon, that gives back the units of orders that were counted,
 * one at least, and come back. Sorted by user, so that transactions that meet in
 * several quotas wait for each other and do not deadlock. */
void user_quota_text_return(struct sql_text *sql, const struct user_quota_return *orders,
                            size_t count);

#endif
