/* What users have in sales with a limit per user, looked up. */
#include "sql/orders/orders.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"

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
