/* Units per user in sales with a limit: counted with each order, given back with each cancelled or
 * expired one.
 *
 * One row per user and round holds the units and the ids of the orders, so a limit costs one row
 * written per order, and one row read where it refuses. */
#include "sql/user_quota.h"

#include "sql/ledger_quota.h"

void user_quota_text_hold(struct sql_text *sql, const char *sku, uint32_t round)
{
    sql_printf(sql, "SELECT counted_to FROM quota_count WHERE sku=");
    sql_identifier(sql, sku);
    sql_printf(sql, " AND round=%u LOCK IN SHARE MODE;", round);
}

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
    sql_printf(sql,
               " AND NOT EXISTS(SELECT 1 FROM quota_count c WHERE c.sku=user_quota.sku AND "
               "c.round=user_quota.round AND COALESCE(counted_to,0)<%llu);",
               (unsigned long long)order_id);
}

void user_quota_text_forget(struct sql_text *sql, const char *sku, uint32_t rows)
{
    sql_printf(sql, "DELETE FROM user_quota WHERE sku=");
    sql_identifier(sql, sku);
    sql_printf(sql, " ORDER BY round,user_id LIMIT %u;", rows);
}

/* One user's ids may be longer than GROUP_CONCAT allows, which fails the statement. MariaDB takes a
 * limit for the ids; MySQL has none, so db_connection.c raises the allowed length. `units` behind
 * its assignment is the sum. */
void user_quota_text_count(struct sql_text *sql, const char *sku, uint32_t round, uint32_t limit,
                           uint64_t after_id, uint64_t last_id)
{
    sql_printf(sql,
               "INSERT INTO user_quota(sku,round,user_id,units,allowed,order_ids)"
               "SELECT sku,round,user_id,SUM(qty),GREATEST(%u,SUM(qty)),SUBSTRING_INDEX("
               "GROUP_CONCAT(order_id ORDER BY order_id DESC/*M!100303 LIMIT %d*/),',',%d)"
               "FROM orders FORCE INDEX(PRIMARY)WHERE order_id>%llu AND order_id<=%llu "
               "AND status IN('reserved','paid')AND round=%u AND sku=",
               limit, LEDGER_QUOTA_ORDERS_MAX, LEDGER_QUOTA_ORDERS_MAX,
               (unsigned long long)after_id, (unsigned long long)last_id, round);
    sql_identifier(sql, sku);
    sql_printf(sql,
               " GROUP BY sku,round,user_id ON DUPLICATE KEY UPDATE units=units+VALUES(units),"
               "allowed=GREATEST(VALUES(allowed),units),order_ids=SUBSTRING_INDEX(CONCAT("
               "VALUES(order_ids),IF(order_ids='','',','),order_ids),',',%d);",
               LEDGER_QUOTA_ORDERS_MAX);
}
