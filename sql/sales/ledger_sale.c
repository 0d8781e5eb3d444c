/* Sales in the ledger: found by sku, or listed. */
#include "sql/sales/sales.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"

enum { SALES_PAGE = 500 };

#define SALE_SELECT                                                                                \
    "SELECT " LEDGER_SALE_COLUMNS("(SELECT COALESCE(SUM(sold),0) FROM stock_segment g "            \
                                  "WHERE g.sku=sale.sku)") " FROM sale "

bool ledger_sale_read(struct ledger *ledger, struct ledger_sale *sale, char **row)
{
    bool valid = ledger_identifier_read(sale->sku, row[0]) &&
                 ledger_number_valid(row[1], 1, LEDGER_ROUND_MAX) &&
                 ledger_number_valid(row[2], 1, LEDGER_TOTAL_MAX) &&
                 ledger_number_valid(row[3], 1, LEDGER_SEGMENTS_MAX) &&
                 ledger_number_valid(row[4], 0, ledger_u64(row[2])) &&
                 ledger_number_valid(row[5], 0, LEDGER_ROUND_MAX);
    if (!valid) {
        ledger_note_damage(ledger,
                           "sale: sku '%s', round %s, total %s, segments %s, sold %s, "
                           "settings_version %s",
                           row[0] ? row[0] : "NULL", row[1], row[2], row[3], row[4], row[5]);
        return false;
    }
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
    return true;
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
    return ledger_sale_read(ledger, sale_out, row) ? LEDGER_OK : LEDGER_DAMAGED;
}

enum ledger_result ledger_sales_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context)
{
    struct ledger_sale sale;
    enum ledger_result result = LEDGER_OK;
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
        if (ledger_sale_read(ledger, &sale, row))
            visit(&sale, context);
        else
            result = LEDGER_DAMAGED;
    }
    return result;
}

enum ledger_result ledger_sale_list(struct ledger *ledger, const char *after, size_t max,
                                    struct ledger_sale *sales_out, size_t *count_out)
{
    size_t seen = 0, wanted = 0, pages = 0;
    *count_out = 0;
    do { /* a page more when damaged rows have taken the places of others */
        if (pages++ == LEDGER_DAMAGED_MAX)
            return LEDGER_DAMAGED;
        wanted = seen + max - *count_out;
        sql_clear(&ledger->sql);
        sql_printf(&ledger->sql, SALE_SELECT "WHERE sku>");
        sql_identifier(&ledger->sql, after);
        sql_printf(&ledger->sql, " ORDER BY sku LIMIT %zu,%zu", seen, wanted - seen);
        if (ledger_read(ledger) != DB_OK)
            return LEDGER_FAILED;
        for (char **row = db_row(ledger->db); row && seen < wanted; row = db_row(ledger->db)) {
            *count_out += ledger_sale_read(ledger, &sales_out[*count_out], row);
            seen++;
        }
    } while (seen == wanted && *count_out < max);
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
