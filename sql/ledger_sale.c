/* Sales in the ledger: finding, listing, and beginning a new round. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sql/ledger_private.h"

#define SALE_COLUMNS                                                                               \
    "SELECT sku,round,total,segments,(SELECT COALESCE(SUM(sold),0) FROM stock_segment g "          \
    "WHERE g.sku=sale.sku) FROM sale "

static void sale_read(struct ledger_sale *sale, char **row)
{
    ledger_word(sale->sku, row[0]);
    sale->round = ledger_u32(row[1]);
    sale->total = ledger_u32(row[2]);
    sale->segments = ledger_u32(row[3]);
    sale->sold = ledger_u32(row[4]);
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

static size_t segments_read(struct db *db, struct ledger_segment *segments_out, size_t max)
{
    size_t count = 0;
    for (char **row = db_row(db); row && count < max; row = db_row(db))
        ledger_segment_read(&segments_out[count++], row);
    return count;
}

static void text_segments(struct sql_text *sql, const char *sku)
{
    sql_printf(sql, "SELECT segment,round,capacity,sold,fence FROM stock_segment WHERE sku=");
    sql_word(sql, sku);
    sql_printf(sql, " ORDER BY segment");
}

enum ledger_result ledger_segments(struct ledger *ledger, const char *sku,
                                   struct ledger_segment *segments_out, size_t *count_out)
{
    *count_out = 0;
    sql_clear(&ledger->sql);
    text_segments(&ledger->sql, sku);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    *count_out = segments_read(ledger->db, segments_out, LEDGER_SEGMENTS_MAX);
    return *count_out > 0 ? LEDGER_OK : LEDGER_NO;
}

/* ---- reset ---- */

struct reset {
    struct ledger *ledger;
    const char *sku;
    uint32_t total;
    uint32_t segments;
    const uint64_t *fences;
    struct ledger_segment *segments_out;
    uint32_t round;
};

static void text_sale(struct sql_text *sql, const struct reset *reset)
{
    sql_printf(sql, "INSERT INTO sale(sku,round,total,segments)VALUES(");
    sql_word(sql, reset->sku);
    sql_printf(sql, ",1,%u,%u)ON DUPLICATE KEY UPDATE round=round+1,total=%u,segments=%u;",
               reset->total, reset->segments, reset->total, reset->segments);
    sql_printf(sql, "SELECT round FROM sale WHERE sku=");
    sql_word(sql, reset->sku);
}

/* The first `total % segments` segments hold one unit more than the others. A fence never goes
 * back: an older lock's late transaction must find one that is not its own. */
static void text_rows(struct sql_text *sql, const struct reset *reset)
{
    const char *lead = "INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence)VALUES";
    uint32_t base = reset->total / reset->segments;
    uint32_t extra = reset->total % reset->segments;
    for (uint32_t i = 0; i < reset->segments; i++) {
        sql_printf(sql, "%s(", i == 0 ? lead : ",");
        sql_word(sql, reset->sku);
        sql_printf(sql, ",%u,%u,%u,0,%llu)", i, reset->round, base + (i < extra),
                   (unsigned long long)reset->fences[i]);
    }
    sql_printf(sql, "ON DUPLICATE KEY UPDATE round=VALUES(round),sold=0,"
                    "capacity=VALUES(capacity),fence=GREATEST(fence+1,VALUES(fence));");
    sql_printf(sql, "DELETE FROM stock_segment WHERE sku=");
    sql_word(sql, reset->sku);
    sql_printf(sql, " AND segment>=%u;", reset->segments);
    text_segments(sql, reset->sku);
}

static enum db_result reset_body(struct db *db, void *context)
{
    struct reset *reset = context;
    struct sql_text *sql = &reset->ledger->sql;
    sql_clear(sql);
    text_sale(sql, reset);
    enum db_result result = ledger_query(reset->ledger);
    if (result != DB_OK)
        return result;
    char **row = db_row(db);
    assert(row);
    reset->round = ledger_u32(row[0]);
    sql_clear(sql);
    text_rows(sql, reset);
    result = ledger_query(reset->ledger);
    if (result == DB_OK)
        segments_read(db, reset->segments_out, reset->segments);
    return result;
}

enum ledger_result ledger_reset(struct ledger *ledger, const char *sku, uint32_t total,
                                uint32_t segments, const uint64_t *fences,
                                struct ledger_sale *sale_out, struct ledger_segment *segments_out)
{
    assert(segments > 0 && segments <= LEDGER_SEGMENTS_MAX && segments <= total);
    struct reset reset = {ledger, sku, total, segments, fences, segments_out, 0};
    enum db_result result = db_run(ledger->db, reset_body, &reset);
    ledger_word(sale_out->sku, sku);
    sale_out->round = reset.round;
    sale_out->total = total;
    sale_out->segments = segments;
    sale_out->sold = 0;
    return ledger_from_db(result);
}
