/* Finds and lists sales, alone and with their segments, and changes their settings. */
#include "sql/sales/sales.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "sql/ledger/ledger.h"
#include "sql/ledger/ledger_query.h"

/* ---- sales ---- */

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
        .refund_late = ledger_u32(row[12]) != 0,
        .hold_max_s = ledger_u32(row[13]),
        .grace_s = ledger_u32(row[14]),
    };
    return true;
}

enum ledger_result ledger_sale_find(struct ledger *ledger, const char *sku,
                                    struct ledger_sale *sale_out)
{
    char **row;
    enum ledger_result result = ledger_read_row(ledger, &row, SALE_SELECT "WHERE sku=%s", sku);
    bool damaged = result == LEDGER_OK && !ledger_sale_read(ledger, sale_out, row);
    return damaged ? LEDGER_DAMAGED : result;
}

/* Completes the text with a list of skus. */
static void text_skus(struct sql_text *sql, const char *const *skus, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sql_printf(sql, i == 0 ? "(%s" : ",%s", skus[i]);
    sql_append(sql, ")", 1);
}

enum ledger_result ledger_sales_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context)
{
    struct ledger_sale sale;
    enum ledger_result result = LEDGER_OK;
    assert(count > 0 && count <= LEDGER_ORDERS_MAX);
    sql_begin(&ledger->sql, SALE_SELECT "WHERE sku IN");
    text_skus(&ledger->sql, skus, count);
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
    uint64_t seen = 0, wanted = 0, pages = 0;
    *count_out = 0;
    do { /* reads another page if damaged rows took places */
        if (pages++ == LEDGER_DAMAGED_MAX)
            return LEDGER_DAMAGED;
        wanted = seen + max - *count_out;
        sql_begin(&ledger->sql, SALE_SELECT "WHERE sku>%s ORDER BY sku LIMIT %ju,%ju", after, seen,
                  wanted - seen);
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
    struct ledger_sale *sales = memory_must(calloc(SALES_PAGE, sizeof *sales));
    char after[IDENTIFIER_SIZE] = "";
    enum ledger_result result = LEDGER_OK;
    size_t count = SALES_PAGE;
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

/* ---- sales with their segments ---- */

struct stock_rows {
    struct ledger *ledger;
    struct ledger_sale sale; /* whose rows are read */
    bool as_it_is;           /* accepts rows that contradict each other */
    bool valid;              /* the sale's rows so far make sense */
    bool damaged;            /* a sale was left out */
    size_t count;            /* segments read of it */
    struct ledger_segment segments[LEDGER_SEGMENTS_MAX];
    ledger_stock_visit *visit;
    void *context;
};

/* Adds up a sale's units sold from its segments. A statement sees the tables as they were at its
 * beginning. The condition on the round matters only for tables that were changed by hand. */
#define STOCK_SELECT                                                                               \
    "SELECT " LEDGER_SALE_COLUMNS(                                                                 \
        "0") ",segment,g.round,capacity,sold,fence "                                               \
             "FROM sale LEFT JOIN stock_segment g ON g.sku=sale.sku AND "                          \
             "g.round=sale.round WHERE sale.sku IN"

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

/* A sale without segments comes as one row whose segment is NULL. */
static void add_row(struct stock_rows *rows, char **row)
{
    char **columns = row + LEDGER_SALE_WIDTH;
    if (!rows->valid || !columns[0] || rows->count == LEDGER_SEGMENTS_MAX)
        return;
    struct ledger_segment *segment = &rows->segments[rows->count++];
    rows->valid =
        ledger_segment_read(rows->ledger, rows->sale.sku, segment, columns, rows->as_it_is);
    rows->sale.sold += segment->sold;
}

enum ledger_result ledger_stock_find(struct ledger *ledger, const char *const *skus, size_t count,
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
    sql_begin(&ledger->sql, STOCK_SELECT);
    text_skus(&ledger->sql, skus, count);
    sql_printf(&ledger->sql, "ORDER BY sale.sku,segment");
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

/* ---- settings ---- */

/* The version of a closed sale's segments. No settings ever have it, even after the restocks that
 * may increment it meanwhile: the ledger accepts no order, whatever process has decided it. */
#define VERSION_CLOSED "2147483648"

void ledger_settings_text(struct sql_text *sql, const struct ledger_settings *settings)
{
    sql_printf(sql, "starts_at=");
    ledger_time_text(sql, settings->starts_ms);
    sql_printf(sql, ",ends_at=");
    ledger_time_text(sql, settings->ends_ms);
    sql_printf(sql,
               ",per_user_limit=NULLIF(%u,0),pay_within_s=NULLIF(%u,0),paused=%d,refund_late=%d,"
               "hold_max_s=NULLIF(%u,0),grace_s=NULLIF(%u,0),",
               settings->per_user_limit, settings->pay_within_s, settings->paused,
               settings->refund_late, settings->hold_max_s, settings->grace_s);
}

/* Closes the sale. Once its segments are locked, all of its orders are in the ledger, so the
 * greatest id there bounds theirs. Where nothing is sold there is nothing to count. */
static enum db_result close_sale(struct ledger *ledger, const char *sku)
{
    return ledger_do(ledger,
                     "UPDATE stock_segment SET settings_version=" VERSION_CLOSED " WHERE sku=%s;"
                     "INSERT INTO quota_count(sku,round,last_id)SELECT sku,round,"
                     "IF((SELECT SUM(sold)FROM stock_segment g WHERE g.sku=sale.sku)>0,"
                     "(SELECT MAX(order_id)FROM orders),0)FROM sale WHERE sku=%s "
                     "ON DUPLICATE KEY UPDATE round=VALUES(round),counted_to=NULL,"
                     "last_id=VALUES(last_id)",
                     sku, sku);
}

/* Updates the sale's row first, so that two changes of one sale wait for each other there. The
 * segments of a sale that is still being counted are closed already. A version in which nothing is
 * new, as at the end of a sale, counts as published: it is no event. */
static enum db_result change(struct ledger *ledger, const char *sku,
                             const struct ledger_settings *settings, bool begins_count,
                             bool counting)
{
    uint32_t version = settings->version;
    sql_begin(&ledger->sql, "UPDATE sale SET ");
    ledger_settings_text(&ledger->sql, settings);
    sql_printf(&ledger->sql,
               "total=total WHERE settings_version=%u AND sku=%s;"
               "UPDATE sale SET settings_version=%u WHERE settings_version=%u AND sku=%s",
               version, sku, version + 1, version, sku);
    enum db_result result = ledger_query(ledger);
    bool same = result == DB_OK && db_affected(ledger->db, 0) == 0;
    if (result == DB_OK && db_affected(ledger->db, 1) != 1) /* another change came first */
        result = DB_NO;
    if (result != DB_OK || (counting && !begins_count))
        return result;
    if (begins_count)
        return close_sale(ledger, sku);
    return ledger_do(
        ledger,
        "UPDATE stock_segment SET settings_version=%u WHERE sku=%s;"
        "DELETE FROM quota_count WHERE sku=%s;UPDATE event_sale SET settings_version=%u "
        "WHERE settings_version=%u AND sku=%s AND %d",
        version + 1, sku, sku, version + 1, version, sku, same);
}

enum ledger_result ledger_settings_change(struct ledger *ledger, const char *sku,
                                          struct ledger_settings *settings, bool begins_count)
{
    bool limited = settings->per_user_limit > 0;
    bool counting = limited && (begins_count || settings->counting);
    struct db_run run = {0};
    assert(!begins_count || limited);
    while (db_run(ledger->db, &run))
        run.result = change(ledger, sku, settings, begins_count, counting);
    if (run.result == DB_OK) {
        settings->version++;
        settings->counting = counting;
    }
    return ledger_from_db(run.result);
}
