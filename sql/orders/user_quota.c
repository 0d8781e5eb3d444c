/* Units per user in sales with a limit: counted, given back, looked up. */
#include "sql/orders/user_quota.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"
#include "sql/orders/orders.h"

/* ---- written ---- */

/* One row per user and round holds the units and the ids of the orders, so a limit costs one row
 * written per order, and one row read where it refuses. */

/* An UPDATE for each user costs the server three times as much as an INSERT of many rows that exist
 * already. Should one be missing after all, the user gets a row without units. Commas around the
 * list and the id make REPLACE match whole ids: ",12," is not in ",112,". */
void user_quota_text_return(struct sql_text *sql, const struct user_quota_return *orders,
                            size_t count)
{
    static const char subtract[] =
        "ON DUPLICATE KEY UPDATE units=IF(units>VALUES(allowed),units-VALUES(allowed),0),"
        "order_ids=TRIM(BOTH ',' FROM REPLACE(CONCAT(',',order_ids,','),"
        "CONCAT(',',VALUES(order_ids),','),','));";
    const char *lead = USER_QUOTA_INSERT "(";
    for (size_t i = 0; i < count; i++) {
        sql_append(sql, lead, strlen(lead));
        sql_identifier(sql, orders[i].sku);
        sql_printf(sql, ",%u,", orders[i].round);
        sql_user_id(sql, orders[i].user_id);
        sql_printf(sql, ",0,%u,%llu)", orders[i].qty, (unsigned long long)orders[i].order_id);
        lead = ",(";
    }
    sql_append(sql, subtract, sizeof subtract - 1);
}

void user_quota_text_forget(struct sql_text *sql, const char *sku, uint32_t rows)
{
    sql_text_identifier(sql, "DELETE FROM user_quota WHERE sku=", sku);
    sql_printf(sql, " ORDER BY round,user_id LIMIT %u;", rows);
}

/* One user's ids may be longer than GROUP_CONCAT allows, which fails the statement. MariaDB takes a
 * limit for the ids; MySQL has none, so db_connection.c raises the allowed length. `units` behind
 * its assignment is the sum. It is bounded: a damaged order may have more units than the column
 * holds, and the sale would never open. */
void user_quota_text_count(struct sql_text *sql, const char *sku, uint32_t round, uint32_t limit,
                           uint64_t after_id, uint64_t last_id)
{
    sql_printf(sql,
               "INSERT INTO user_quota(sku,round,user_id,units,allowed,order_ids)"
               "SELECT sku,round,user_id,LEAST(SUM(qty),%d),GREATEST(%u,LEAST(SUM(qty),%d)),"
               "SUBSTRING_INDEX("
               "GROUP_CONCAT(order_id ORDER BY order_id DESC/*M!100303 LIMIT %d*/),',',%d)"
               "FROM orders FORCE INDEX(PRIMARY)WHERE order_id>%llu AND order_id<=%llu "
               "AND status IN('reserved','paid')AND round=%u AND sku=",
               LEDGER_TOTAL_MAX, limit, LEDGER_TOTAL_MAX, LEDGER_QUOTA_ORDERS_MAX,
               LEDGER_QUOTA_ORDERS_MAX, (unsigned long long)after_id, (unsigned long long)last_id,
               round);
    sql_identifier(sql, sku);
    sql_printf(sql,
               " GROUP BY sku,round,user_id ON DUPLICATE KEY UPDATE "
               "units=LEAST(units+VALUES(units),%d),"
               "allowed=GREATEST(VALUES(allowed),units),order_ids=SUBSTRING_INDEX(CONCAT("
               "VALUES(order_ids),IF(order_ids='','',','),order_ids),',',%d);",
               LEDGER_TOTAL_MAX, LEDGER_QUOTA_ORDERS_MAX);
}

/* ---- looked up ---- */

static int compare(const struct ledger_quota *quota, const char *sku, const char *user_id)
{
    int order = strcmp(quota->sku, sku);
    return order != 0 ? order : strcmp(quota->user_id, user_id);
}

static struct ledger_quota *quota_find(struct ledger_quota *quotas, size_t count, const char *sku,
                                       const char *user_id)
{
    while (count > 0) {
        size_t middle = count / 2;
        int order = compare(&quotas[middle], sku, user_id);
        if (order == 0)
            return &quotas[middle];
        if (order < 0) {
            quotas += middle + 1;
            count -= middle + 1;
        } else {
            count = middle;
        }
    }
    return NULL;
}

static void quota_read(struct ledger_quota *quota, char **row)
{
    quota->units = ledger_u32(row[2]);
    quota->order_count = 0;
    for (char *at = row[3]; *at && quota->order_count < LEDGER_QUOTA_ORDERS_MAX; at += *at == ',')
        quota->order_ids[quota->order_count++] = strtoull(at, &at, 10);
}

/* One SELECT per sale, because MariaDB uses the primary key for it however many users there are. */
static void text_find(struct sql_text *sql, const struct ledger_quota *quotas, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(quotas[i].sku, quotas[i - 1].sku) == 0) {
            sql_append(sql, ",", 1);
        } else {
            if (i > 0)
                sql_printf(sql, ")UNION ALL ");
            sql_printf(sql,
                       "SELECT sku,user_id,units,order_ids FROM user_quota FORCE INDEX(PRIMARY)"
                       "WHERE sku=");
            sql_identifier(sql, quotas[i].sku);
            sql_printf(sql, " AND round=%u AND user_id IN(", quotas[i].round);
        }
        sql_user_id(sql, quotas[i].user_id);
    }
    sql_append(sql, ")", 1);
}

enum ledger_result ledger_quotas_find(struct ledger *ledger, struct ledger_quota *quotas,
                                      size_t count)
{
    assert(count > 0 && count <= LEDGER_ORDERS_MAX);
    sql_clear(&ledger->sql);
    text_find(&ledger->sql, quotas, count);
    for (size_t i = 0; i < count; i++)
        quotas[i].units = 0, quotas[i].order_count = 0;
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        struct ledger_quota *quota = quota_find(quotas, count, row[0], row[1]);
        if (!quota) /* not asked for: then none of the rows can be believed */
            return LEDGER_FAILED;
        quota_read(quota, row);
    }
    return LEDGER_OK;
}
