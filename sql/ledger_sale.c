/* Sales in the ledger: finding, listing, and beginning a new round. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/user_quota.h"
#include "sql/ledger_private.h"

enum {
    SALES_PAGE = 500,
    RECOUNT_MS_MAX = 120000, /* for reading all orders: some seconds for each million of them */
};

/* A DATETIME as ms since 1970, whatever the connection's time zone. */
#define MS_OF(column) "TIMESTAMPDIFF(MICROSECOND,'1970-01-01'," column ")DIV 1000"

#define SALE_COLUMNS                                                                               \
    "SELECT sku,round,total,segments,(SELECT COALESCE(SUM(sold),0) FROM stock_segment g "          \
    "WHERE g.sku=sale.sku),settings_version," MS_OF("starts_at") "," MS_OF(                        \
        "ends_at") ",per_user_limit,"                                                              \
                   "pay_within_s,paused FROM sale "

static void sale_read(struct ledger_sale *sale, char **row)
{
    ledger_word(sale->sku, row[0]);
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
    };
}

void ledger_segment_read(struct ledger_segment *segment, char **row)
{
    segment->segment = ledger_u32(row[0]);
    segment->round = ledger_u32(row[1]);
    segment->capacity = ledger_u32(row[2]);
    segment->sold = ledger_u32(row[3]);
    segment->fence = ledger_u64(row[4]);
}

enum ledger_result ledger_sale_find(struct ledger *ledger, const char *sku,
                                    struct ledger_sale *sale_out)
{
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql, SALE_COLUMNS "WHERE sku=");
    sql_word(&ledger->sql, sku);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = db_row(ledger->db);
    if (!row)
        return LEDGER_NO;
    sale_read(sale_out, row);
    return LEDGER_OK;
}

enum ledger_result ledger_sales_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context)
{
    struct ledger_sale sale;
    assert(count > 0 && count <= LEDGER_ORDERS_MAX);
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql, SALE_COLUMNS "WHERE sku IN");
    for (size_t i = 0; i < count; i++) {
        sql_append(&ledger->sql, i == 0 ? "(" : ",", 1);
        sql_word(&ledger->sql, skus[i]);
    }
    sql_append(&ledger->sql, ")", 1);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        sale_read(&sale, row);
        visit(&sale, context);
    }
    return LEDGER_OK;
}

enum ledger_result ledger_sale_list(struct ledger *ledger, const char *after, size_t max,
                                    struct ledger_sale *sales_out, size_t *count_out)
{
    *count_out = 0;
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql, SALE_COLUMNS "WHERE sku>");
    sql_word(&ledger->sql, after);
    sql_printf(&ledger->sql, " ORDER BY sku LIMIT %zu", max);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row && *count_out < max; row = db_row(ledger->db))
        sale_read(&sales_out[(*count_out)++], row);
    return LEDGER_OK;
}

enum ledger_result ledger_sales_each(struct ledger *ledger,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context)
{
    struct ledger_sale *sales = calloc(SALES_PAGE, sizeof *sales);
    char after[LEDGER_IDENTIFIER_SIZE] = "";
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

size_t ledger_segments_read(struct db *db, struct ledger_segment *segments_out, size_t max)
{
    size_t count = 0;
    for (char **row = db_row(db); row && count < max; row = db_row(db))
        ledger_segment_read(&segments_out[count++], row);
    return count;
}

void ledger_text_segments(struct sql_text *sql, const char *sku)
{
    sql_printf(sql, "SELECT segment,round,capacity,sold,fence FROM stock_segment WHERE sku=");
    sql_word(sql, sku);
}

enum ledger_result ledger_segments(struct ledger *ledger, const char *sku,
                                   struct ledger_segment *segments_out, size_t *count_out)
{
    *count_out = 0;
    sql_clear(&ledger->sql);
    ledger_text_segments(&ledger->sql, sku);
    sql_printf(&ledger->sql, " ORDER BY segment");
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    *count_out = ledger_segments_read(ledger->db, segments_out, LEDGER_SEGMENTS_MAX);
    return *count_out > 0 ? LEDGER_OK : LEDGER_NO;
}

/* ---- settings ---- */

/* As assignments, the version's apart. */
static void text_settings(struct sql_text *sql, const struct ledger_settings *settings)
{
    sql_printf(sql, "starts_at=");
    ledger_text_time(sql, settings->starts_ms);
    sql_printf(sql, ",ends_at=");
    ledger_text_time(sql, settings->ends_ms);
    sql_printf(sql, ",per_user_limit=NULLIF(%u,0),pay_within_s=NULLIF(%u,0),paused=%d,",
               settings->per_user_limit, settings->pay_within_s, settings->paused);
}

struct change {
    struct ledger *ledger;
    const char *sku;
    const struct ledger_settings *settings;
    bool recount;
};

/* Each of the long statements is a query of its own: the time is given to the first of a query. */
static enum db_result recount(struct db *db, const struct change *change)
{
    struct sql_text *sql = &change->ledger->sql;
    int timeout_ms = db_set_timeout(db, RECOUNT_MS_MAX);
    sql_clear(sql);
    user_quota_text_forget(sql, change->sku);
    enum db_result result = ledger_query(change->ledger);
    sql_clear(sql);
    user_quota_text_recount(sql, change->sku, change->settings->per_user_limit);
    if (result == DB_OK)
        result = ledger_query(change->ledger);
    db_set_timeout(db, timeout_ms);
    return result;
}

/* The sale's row first: two changes of one sale then wait for each other there. */
static enum db_result change_body(struct db *db, void *context)
{
    const struct change *change = context;
    struct sql_text *sql = &change->ledger->sql;
    sql_clear(sql);
    sql_printf(sql, "UPDATE sale SET ");
    text_settings(sql, change->settings);
    sql_printf(sql, "settings_version=settings_version+1 WHERE settings_version=%u AND sku=",
               change->settings->version);
    sql_word(sql, change->sku);
    sql_printf(sql,
               ";UPDATE stock_segment SET settings_version=%u WHERE settings_version=%u AND sku=",
               change->settings->version + 1, change->settings->version);
    sql_word(sql, change->sku);
    enum db_result result = ledger_query(change->ledger);
    if (result == DB_OK && db_affected(db, 0) != 1)
        result = DB_NO;
    return result == DB_OK && change->recount ? recount(db, change) : result;
}

enum ledger_result ledger_settings_change(struct ledger *ledger, const char *sku,
                                          struct ledger_settings *settings, bool recount)
{
    struct change change = {ledger, sku, settings, recount};
    enum ledger_result result = ledger_from_db(db_run(ledger->db, change_body, &change));
    if (result == LEDGER_OK)
        settings->version++;
    return result;
}

/* ---- reset ---- */

struct reset {
    struct ledger *ledger;
    struct ledger_sale *sale;
    const uint64_t *fences;
    struct ledger_segment *segments_out;
};

static void text_sale(struct sql_text *sql, const struct ledger_sale *sale)
{
    sql_printf(sql, "INSERT IGNORE INTO sale(sku,round,total,segments)VALUES(");
    sql_word(sql, sale->sku);
    sql_printf(sql, ",0,0,0);UPDATE sale SET ");
    text_settings(sql, &sale->settings);
    sql_printf(sql,
               "settings_version=settings_version+1,round=round+1,total=%u,segments=%u WHERE sku=",
               sale->total, sale->segments);
    sql_word(sql, sale->sku);
    sql_printf(sql, ";SELECT round,settings_version FROM sale WHERE sku=");
    sql_word(sql, sale->sku);
}

/* The first `total % segments` segments hold one unit more than the others. A fence never goes
 * back: an older lock's late transaction must find one that is not its own. */
static void text_rows(struct sql_text *sql, const struct ledger_sale *sale, const uint64_t *fences)
{
    const char *lead =
        "INSERT INTO stock_segment(sku,segment,round,settings_version,capacity,sold,fence)"
        "VALUES";
    uint32_t base = sale->total / sale->segments;
    uint32_t extra = sale->total % sale->segments;
    for (uint32_t i = 0; i < sale->segments; i++) {
        sql_printf(sql, "%s(", i == 0 ? lead : ",");
        sql_word(sql, sale->sku);
        sql_printf(sql, ",%u,%u,%u,%u,0,%llu)", i, sale->round, sale->settings.version,
                   base + (i < extra), (unsigned long long)fences[i]);
    }
    sql_printf(
        sql,
        "ON DUPLICATE KEY UPDATE round=VALUES(round),settings_version=VALUES(settings_version),sold=0,"
        "capacity=VALUES(capacity),fence=GREATEST(fence+1,VALUES(fence));");
    sql_printf(sql, "DELETE FROM stock_segment WHERE sku=");
    sql_word(sql, sale->sku);
    sql_printf(sql, " AND segment>=%u;", sale->segments);
    ledger_text_segments(sql, sale->sku);
    sql_printf(sql, " ORDER BY segment");
}

static enum db_result reset_body(struct db *db, void *context)
{
    struct reset *reset = context;
    struct sql_text *sql = &reset->ledger->sql;
    sql_clear(sql);
    text_sale(sql, reset->sale);
    enum db_result result = ledger_query(reset->ledger);
    if (result != DB_OK)
        return result;
    char **row = db_row(db);
    assert(row);
    reset->sale->round = ledger_u32(row[0]);
    reset->sale->settings.version = ledger_u32(row[1]);
    sql_clear(sql);
    text_rows(sql, reset->sale, reset->fences);
    result = ledger_query(reset->ledger);
    if (result == DB_OK)
        ledger_segments_read(db, reset->segments_out, reset->sale->segments);
    return result;
}

enum ledger_result ledger_reset(struct ledger *ledger, struct ledger_sale *sale,
                                const uint64_t *fences, struct ledger_segment *segments_out)
{
    assert(sale->segments > 0 && sale->segments <= LEDGER_SEGMENTS_MAX);
    assert(sale->segments <= sale->total);
    struct reset reset = {ledger, sale, fences, segments_out};
    sale->sold = 0;
    return ledger_from_db(db_run(ledger->db, reset_body, &reset));
}
