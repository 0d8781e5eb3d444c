/* Sales with their segments, of several skus, as one consistent picture. */
#include "sql/sales/sales.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"

struct stock_rows {
    struct ledger *ledger;
    struct ledger_sale sale; /* whose rows are read */
    bool as_it_is;           /* rows that contradict each other count as well */
    bool valid;              /* those so far make sense */
    bool damaged;            /* those of some sale do not */
    size_t count;            /* segments read of it */
    struct ledger_segment segments[LEDGER_SEGMENTS_MAX];
    ledger_stock_visit *visit;
    void *context;
};

/* The sale's units sold are added up from its segments. A statement sees the tables as they were at
 * its beginning. The condition on the round matters only for tables that were changed by hand. */
static void stock_text(struct sql_text *sql, const char *const *skus, size_t count)
{
    sql_clear(sql);
    sql_printf(sql, "SELECT " LEDGER_SALE_COLUMNS(
                        "0") ",segment,g.round,capacity,sold,fence "
                             "FROM sale LEFT JOIN stock_segment g ON g.sku=sale.sku AND "
                             "g.round=sale.round WHERE sale.sku IN");
    for (size_t i = 0; i < count; i++) {
        sql_append(sql, i == 0 ? "(" : ",", 1);
        sql_identifier(sql, skus[i]);
    }
    sql_printf(sql, ")ORDER BY sale.sku,segment");
}

static void visit_sale(struct stock_rows *rows)
{
    bool whole = rows->as_it_is || rows->count == rows->sale.segments;
    if (rows->valid && !whole)
        ledger_note_damage(rows->ledger, "stock_segment: sku '%s' has %zu of %u segments",
                           rows->sale.sku, rows->count, rows->sale.segments);
    rows->valid = rows->valid && whole;
    rows->damaged |= !rows->valid;
    if (rows->valid)
        rows->visit(&rows->sale, rows->segments, rows->count, rows->context);
}

/* A sale without segments comes in one row that has none. */
static void add_row(struct stock_rows *rows, char **row)
{
    char **columns = row + LEDGER_SALE_WIDTH;
    if (!rows->valid || !columns[0] || rows->count == LEDGER_SEGMENTS_MAX)
        return;
    struct ledger_segment *segment = &rows->segments[rows->count++];
    rows->valid = rows->as_it_is
                      ? ledger_segment_read_as_it_is(rows->ledger, rows->sale.sku, segment, columns)
                      : ledger_segment_read(rows->ledger, rows->sale.sku, segment, columns);
    rows->sale.sold += segment->sold;
}

static enum ledger_result find(struct ledger *ledger, const char *const *skus, size_t count,
                               bool as_it_is, ledger_stock_visit *visit, void *context)
{
    struct stock_rows rows;
    char sku[IDENTIFIER_SIZE] = "";
    rows.ledger = ledger;
    rows.as_it_is = as_it_is;
    rows.valid = rows.damaged = false;
    rows.count = 0;
    rows.visit = visit;
    rows.context = context;
    assert(count > 0 && count <= LEDGER_STOCK_SKUS_MAX);
    stock_text(&ledger->sql, skus, count);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        if (!row[0])
            return LEDGER_FAILED;
        if (strcmp(row[0], sku) != 0) {
            if (sku[0] != '\0')
                visit_sale(&rows);
            snprintf(sku, sizeof sku, "%s", row[0]);
            rows.count = 0;
            rows.valid = ledger_sale_read(ledger, &rows.sale, row);
        }
        add_row(&rows, row);
    }
    if (sku[0] != '\0')
        visit_sale(&rows);
    return rows.damaged ? LEDGER_DAMAGED : LEDGER_OK;
}

enum ledger_result ledger_stock_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     ledger_stock_visit *visit, void *context)
{
    return find(ledger, skus, count, false, visit, context);
}

enum ledger_result ledger_stock_find_as_it_is(struct ledger *ledger, const char *sku,
                                              ledger_stock_visit *visit, void *context)
{
    return find(ledger, &sku, 1, true, visit, context);
}
