/* Units per user, in sales with a limit: counted with each order, given back with each that ends.
 *
 * One row per user of a round holds it all, the ids of his orders too: what a limit costs is one
 * row written per order, and one read where it refuses. */
#include "sql/user_quota.h"

#include <string.h>

#include "sql/ledger_quota.h"

static void text_quota(struct sql_text *sql, const struct ledger_order *order)
{
    sql_word(sql, order->sku);
    sql_append(sql, ",", 1);
    sql_number(sql, order->round);
    sql_append(sql, ",", 1);
    sql_word(sql, order->user_id);
    sql_append(sql, ",", 1);
    sql_number(sql, order->qty);
    sql_append(sql, ",", 1);
    sql_number(sql, order->limit);
    sql_append(sql, ",", 1);
    sql_number(sql, order->order_id);
    sql_append(sql, ")", 1);
}

void user_quota_text_count(struct sql_text *sql, const struct ledger_order *const *orders,
                           size_t count)
{
    const char *lead = USER_QUOTA_INSERT "(";
    for (size_t i = 0; i < count; i++) {
        sql_append(sql, lead, strlen(lead));
        text_quota(sql, orders[i]);
        lead = ",(";
    }
    if (lead[0] == ',')
        sql_printf(sql, USER_QUOTA_ADD ";", LEDGER_QUOTA_ORDERS_MAX);
}

void user_quota_text_return(struct sql_text *sql, const char *sku, uint32_t round,
                            const char *user_id, uint64_t order_id, uint32_t qty)
{
    sql_printf(sql,
               "UPDATE user_quota SET units=IF(units>%u,units-%u,0),order_ids=TRIM(BOTH ',' FROM "
               "REPLACE(CONCAT(',',order_ids,','),',%llu,',','))WHERE sku=",
               qty, qty, (unsigned long long)order_id);
    sql_word(sql, sku);
    sql_printf(sql, " AND round=%u AND user_id=", round);
    sql_word(sql, user_id);
    sql_append(sql, ";", 1);
}

void user_quota_text_forget(struct sql_text *sql, const char *sku)
{
    sql_printf(sql, "DELETE FROM user_quota WHERE sku=");
    sql_word(sql, sku);
    sql_append(sql, ";", 1);
}

/* One user's ids may be more than GROUP_CONCAT takes, which fails the statement. MariaDB is told
 * how many are wanted; MySQL, which cannot be, takes as many as db.c sets its sessions to. */
void user_quota_text_recount(struct sql_text *sql, const char *sku, uint32_t limit)
{
    sql_printf(sql,
               "INSERT INTO user_quota(sku,round,user_id,units,allowed,order_ids)"
               "SELECT o.sku,o.round,user_id,SUM(qty),GREATEST(%u,SUM(qty)),SUBSTRING_INDEX("
               "GROUP_CONCAT(order_id ORDER BY order_id DESC/*M!100303 LIMIT %d*/),',',%d)"
               "FROM orders o JOIN sale USING(sku,round)"
               "WHERE status IN('reserved','paid')AND o.sku=",
               limit, LEDGER_QUOTA_ORDERS_MAX, LEDGER_QUOTA_ORDERS_MAX);
    sql_word(sql, sku);
    sql_printf(sql, " GROUP BY o.sku,o.round,user_id;");
}
