/* The beginning of a sale's next round. */
#include "sql/ledger_reset.h"

#include <assert.h>

#include "sql/ledger_query.h"
#include "sql/ledger_round.h"
#include "sql/ledger_settings.h"

struct reset {
    struct ledger *ledger;
    struct ledger_sale *sale;
    const uint64_t *fences;
    struct ledger_segment *segments_out;
};

/* The INSERT gives a new sale a row to lock, so that two resets of it wait for each other there. */
static void text_sale(struct sql_text *sql, const struct ledger_sale *sale)
{
    ledger_round_row_text(sql, sale->sku);
    sql_printf(sql, ";UPDATE sale SET ");
    ledger_settings_text(sql, &sale->settings);
    sql_printf(sql,
               "settings_version=settings_version+1,round=round+1,total=%u,segments=%u WHERE sku=",
               sale->total, sale->segments);
    sql_identifier(sql, sale->sku);
    sql_printf(sql, ";SELECT round,settings_version FROM sale WHERE sku=");
    sql_identifier(sql, sale->sku);
}

/* The first `total % segments` segments get one unit more than the others. Fences never go back, so
 * that the late transaction of an older lock finds a fence that is not its own. */
static void text_rows(struct sql_text *sql, const struct ledger_sale *sale, const uint64_t *fences)
{
    const char *lead =
        "INSERT INTO stock_segment(sku,segment,round,settings_version,capacity,sold,fence)"
        "VALUES";
    uint32_t base = sale->total / sale->segments;
    uint32_t extra = sale->total % sale->segments;
    for (uint32_t i = 0; i < sale->segments; i++) {
        sql_printf(sql, "%s(", i == 0 ? lead : ",");
        sql_identifier(sql, sale->sku);
        sql_printf(sql, ",%u,%u,%u,%u,0,%llu)", i, sale->round, sale->settings.version,
                   base + (i < extra), (unsigned long long)fences[i]);
    }
    sql_printf(sql, "ON DUPLICATE KEY UPDATE round=VALUES(round),"
                    "settings_version=VALUES(settings_version),sold=0,"
                    "capacity=VALUES(capacity),fence=GREATEST(fence+1,VALUES(fence));");
    sql_printf(sql, "DELETE FROM stock_segment WHERE sku=");
    sql_identifier(sql, sale->sku);
    sql_printf(sql, " AND segment>=%u;", sale->segments);
    ledger_round_end_text(sql, sale->sku, sale->round - 1, sale->segments, false);
    sql_append(sql, ";", 1);
    ledger_segments_text(sql, sale->sku);
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
