/* Counts, gives back and looks up units per user in sales with a limit. */
#include "sql/orders/user_quota.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"
#include "sql/orders/orders.h"

/* ---- written ---- */

/* One row per user and round holds the units and the ids of the orders, so a limit costs one row
 * written per order, and one row read per refusal. */

/* An UPDATE for each user costs the server three times as much as an INSERT of many existing rows.
 * If a row should be missing after all, the user gets one without units. Commas around the list and
 * the id make REPLACE match whole ids: ",12," is not in ",112,". */
void user_quota_text_return(struct sql_text *sql, const struct user_quota_return *orders,
                            size_t count)
{
    static const char subtract[] =
        "ON DUPLICATE KEY UPDATE units=IF(units>VALUES(allowed),units-VALUES(allowed),0),"
        "order_ids=TRIM(BOTH ',' FROM REPLACE(CONCAT(',',order_ids,','),"
        "CONCAT(',',VALUES(order_ids),','),','));";
    for (size_t i = 0; i < count; i++)
        sql_printf(sql, "%-s(%s,%u,%s,0,%u,%ju)", i == 0 ? USER_QUOTA_INSERT : ",", orders[i].sku,
                   orders[i].round, orders[i].user_id, orders[i].qty,
                   orders[i].stays ? 0 : orders[i].order_id); /* no order has the id 0 */
    sql_append(sql, subtract, sizeof subtract - 1);
}

/* ---- looked up ---- */

static int compare(const void *left, const void *right)
{
    const struct ledger_quota *a = left, *b = right;
    int order = strcmp(a->sku, b->sku);
    return order != 0 ? order : strcmp(a->user_id, b->user_id);
}

static void quota_read(struct ledger_quota *quota, char **row)
{
    quota->units = ledger_u32(row[2]);
    quota->order_count = 0;
    for (char *at = row[3]; *at && quota->order_count < LEDGER_QUOTA_ORDERS_MAX; at += *at == ',')
        quota->order_ids[quota->order_count++] = strtoull(at, &at, 10);
}

/* One SELECT per sale, for which MariaDB uses the primary key however many users there are. */
static void text_find(struct sql_text *sql, const struct ledger_quota *quotas, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(quotas[i].sku, quotas[i - 1].sku) == 0)
            sql_printf(sql, ",%s", quotas[i].user_id);
        else
            sql_printf(sql,
                       "%-sSELECT sku,user_id,units,order_ids FROM user_quota "
                       "FORCE INDEX(PRIMARY)WHERE sku=%s AND round=%u AND user_id IN(%s",
                       i > 0 ? ")UNION ALL " : "", quotas[i].sku, quotas[i].round,
                       quotas[i].user_id);
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
        const struct ledger_quota key = {.sku = row[0], .user_id = row[1]};
        struct ledger_quota *quota = bsearch(&key, quotas, count, sizeof key, compare);
        if (!quota) /* not asked for: no row can be trusted then */
            return LEDGER_FAILED;
        quota_read(quota, row);
    }
    return LEDGER_OK;
}
