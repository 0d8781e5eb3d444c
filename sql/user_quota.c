/* Units per user in sales with a limit: counted with each order, given back with each cancelled or
 * expired one.
 *
 * One row per user and round holds the units and the ids of the orders, so a limit costs one row
 * written per order, and one row read where it refuses. */
#include "sql/user_quota.h"

#include "sql/ledger_quota.h"

/* Commas around the list and the id make REPLACE match whole ids: ",12," is not in ",112,". */
void user_quota_text_return(struct sql_text *sql, const char *sku, uint32_t round,
                            const char *user_id, uint64_t order_id, uint32_t qty)
{
    sql_printf(sql,
               "UPDATE user_quota SET units=IF(units>%u,units-%u,0),order_ids=TRIM(BOTH ',' FROM "
               "REPLACE(CONCAT(',',order_ids,','),',%llu,',','))WHERE sku=",
               qty, qty, (unsigned long long)order_id);
    sql_identifier(sql, sku);
    sql_printf(sql, " AND round=%u AND user_id=", round);
    sql_identifier(sql, user_id);
    sql_append(sql, ";", 1);
}

void user_quota_text_forget(struct sql_text *sql, const char *sku)
{
    sql_printf(sql, "DELETE FROM user_quota WHERE sku=");
    sql_identifier(sql, sku);
    sql_append(sql, ";", 1);
}

/* One user's ids may be longer than GROUP_CONCAT allows, which fails the statement. MariaDB takes a
 * limit for the ids; MySQL has none, so db_connection.c raises the allowed length. */
void user_quota_text_recount(struct sql_text *sql, const char *sku, uint32_t limit)
{
    sql_printf(sql,
               "INSERT INTO user_quota(sku,round,user_id,units,allowed,order_ids)"
               "SELECT o.sku,o.round,user_id,SUM(qty),GREATEST(%u,SUM(qty)),SUBSTRING_INDEX("
               "GROUP_CONCAT(order_id ORDER BY order_id DESC/*M!100303 LIMIT %d*/),',',%d)"
               "FROM orders o JOIN sale USING(sku,round)"
               "WHERE status IN('reserved','paid')AND o.sku=",
               limit, LEDGER_QUOTA_ORDERS_MAX, LEDGER_QUOTA_ORDERS_MAX);
    sql_identifier(sql, sku);
    sql_printf(sql, " GROUP BY o.sku,o.round,user_id;");
}
