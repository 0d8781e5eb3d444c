/* Sales with their segments, of several skus, as one consistent picture. */
#include "sql/ledger_stock.h"

#include <assert.h>
#include <string.h>

#include "sql/ledger_query.h"

struct stock_rows {
    struct ledger_sale sale;
    size_t count; /* segments read of it */
    struct ledger_segment segments[LEDGER_SEGMENTS_MAX];
    ledger_stock_visit *visit;
    void *context;
};

/* The sale's units sold are added up from its segments. A statement sees the tables as they were at
 * its beginning. The condition on the round matters only for tables that were changed by hand. */
static void stock_text(struct sql_text *sql, const char *const *skus, size_t count)
{
    sql_clear(sql);
    sql_printf(sql,
               "SELECT " LEDGER_SALE_COLUMNS(
                   "0") ",segment,g.round,capacity,sold,fence "
                        "FROM sale JOIN stock_segment g ON g.sku=sale.sku AND g.round=sale.round "
                        "WHERE sale.sku IN");
    for (size_t i = 0; i < count; i++) {
        sql_append(sql, i == 0 ? "(" : ",", 1);
        sql_identifier(sql, skus[i]);
    }
    sql_printf(sql, ")ORDER BY g.sku,segment");
}

static void visit_sale(struct stock_rows *rows)
{
    if (rows->count > 0)
        rows->visit(&rows->sale, rows->segments, rows->count, rows->context);
    rows->count = 0;
}

static void add_row(struct stock_rows *rows, char **row)
{
    if (rows->count == 0)
        ledger_sale_read(&rows->sale, row);
    struct ledger_segment *segment = &rows->segments[rows->count++];
    ledger_segment_read(segment, row + LEDGER_SALE_WIDTH);
    rows->sale.sold += segment->sold;
}

enum ledger_result ledger_stock_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     ledger_stock_visit *visit, void *context)
{
    struct stock_rows rows;
    rows.count = 0;
    rows.visit = visit;
    rows.context = context;
    assert(count > 0 && count <= LEDGER_STOCK_SKUS_MAX);
    stock_text(&ledger->sql, skus, count);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        if (rows.count > 0 && strcmp(row[0], rows.sale.sku) != 0)
            visit_sale(&rows);
        if (rows.count < LEDGER_SEGMENTS_MAX)
            add_row(&rows, row);
    }
    visit_sale(&rows);
    return LEDGER_OK;
}
