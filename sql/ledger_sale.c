/* Sales in the ledger: found by sku, or listed. */
#include "sql/ledger_sale.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger_query.h"

enum { SALES_PAGE = 500 };

#define SALE_SELECT                                                                                \
    "SELECT " LEDGER_SALE_COLUMNS("(SELECT COALESCE(SUM(sold),0) FROM stock_segment g "            \
                                  "WHERE g.sku=sale.sku)") " FROM sale "

void ledger_sale_read(struct ledger_sale *sale, char **row)
{
    ledger_identifier(sale->sku, row[0]);
    sale->round = ledger_u32(row[1]);
    sale->total = ledger_u32(row[2]);
    sale->segments = ledger_u32(row[3]);
    sale->sold = ledger_u32(row[4]);
    sale->settings = (struct ledger_settings){
        .version = ledger_u32(row[5]),
        .starts_ms = (int64_t)ledger_u64(row[6]),
        .ends_ms = (int64_t)ledger_u64(row[7]),
        .per_user_limit = ledger_u32(row[8]),
        .pay_within_s = ledger_u32(row[9]),
        .paused = ledger_u32(row[10]) != 0,
        .counting = ledger_u32(row[11]) != 0,
    };
}

enum ledger_result ledger_sale_find(struct ledger *ledger, const char *sku,
                                    struct ledger_sale *sale_out)
{
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql, SALE_SELECT "WHERE sku=");
    sql_identifier(&ledger->sql, sku);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = db_row(ledger->db);
    if (!row)
        return LEDGER_NO;
    ledger_sale_read(sale_out, row);
    return LEDGER_OK;
}

enum ledger_result ledger_sales_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context)
{
    struct ledger_sale sale;
    assert(count > 0 && count <= LEDGER_ORDERS_MAX);
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql, SALE_SELECT "WHERE sku IN");
    for (size_t i = 0; i < count; i++) {
        sql_append(&ledger->sql, i == 0 ? "(" : ",", 1);
        sql_identifier(&ledger->sql, skus[i]);
    }
    sql_append(&ledger->sql, ")", 1);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        ledger_sale_read(&sale, row);
        visit(&sale, context);
    }
    return LEDGER_OK;
}

enum ledger_result ledger_sale_list(struct ledger *ledger, const char *after, size_t max,
                                    struct ledger_sale *sales_out, size_t *count_out)
{
    *count_out = 0;
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql, SALE_SELECT "WHERE sku>");
    sql_identifier(&ledger->sql, after);
    sql_printf(&ledger->sql, " ORDER BY sku LIMIT %zu", max);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row && *count_out < max; row = db_row(ledger->db))
        ledger_sale_read(&sales_out[(*count_out)++], row);
    return LEDGER_OK;
}

/* Pages keep the answer, which the client library holds in memory, small. */
enum ledger_result ledger_sales_each(struct ledger *ledger,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context)
{
    struct ledger_sale *sales = calloc(SALES_PAGE, sizeof *sales);
    char after[IDENTIFIER_SIZE] = "";
    enum ledger_result result = LEDGER_OK;
    size_t count = SALES_PAGE;
    if (!sales)
        abort();
    while (result == LEDGER_OK && count == SALES_PAGE) {
        result = ledger_sale_list(ledger, after, SALES_PAGE, sales, &count);
        for (size_t i = 0; i < count; i++)
            visit(&sales[i], context);
        if (count > 0)
            memcpy(after, sales[count - 1].sku, sizeof after);
    }
    free(sales);
    return result;
}
