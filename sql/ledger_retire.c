/* The end of a sale: its row and its segments go, its orders stay.
 *
 * why_fences: orders have no index by their sale, so those that hold units are counted before, in
 * pieces and without any lock. An order that is committed behind the count is found all the same:
 * it changes the units sold or the fence of a segment, and under their locks both must be as
 * before the count. Neither tells by itself: orders sold by counters leave the fence as it is, and
 * a paid order may be cancelled, which raises the fence, while another takes its units. */
#include "sql/ledger_retire.h"

#include <assert.h>

#include "sql/ledger_query.h"
#include "sql/ledger_round.h"
#include "sql/ledger_status.h"

static void text_segments(struct sql_text *sql, const char *sku)
{
    sql_clear(sql);
    sql_printf(sql, "SELECT SUM(fence),SUM(sold)FROM stock_segment WHERE sku=");
    sql_identifier(sql, sku);
}

static void read_segments(struct ledger *ledger, uint64_t *fences_out, uint64_t *sold_out)
{
    char **row = db_row(ledger->db);
    *fences_out = row ? ledger_u64(row[0]) : 0;
    *sold_out = row ? ledger_u64(row[1]) : 0;
}

/* Notes the segments' sums, and where to begin: orders of the sale cannot be older than its sku, or
 * than the last sale of it that was retired. */
static enum ledger_result begin_count(struct ledger *ledger, const char *sku,
                                      struct ledger_held *held)
{
    struct sql_text *sql = &ledger->sql;
    text_segments(sql, sku);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    read_segments(ledger, &held->fences, &held->sold);
    sql_clear(sql);
    sql_printf(sql, "SELECT MAX(last_id)FROM sale_round WHERE(retired OR round=0)AND sku=");
    sql_identifier(sql, sku);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = db_row(ledger->db);
    uint64_t last_id = row ? ledger_u64(row[0]) : 0;
    held->counted_to = last_id > LEDGER_ID_SKEW ? last_id - LEDGER_ID_SKEW : 0;
    held->begun = true;
    return LEDGER_OK;
}

static void text_count(struct sql_text *sql, const char *sku, uint64_t after)
{
    const char *reserved = ledger_status_name(LEDGER_RESERVED);
    const char *paid = ledger_status_name(LEDGER_PAID);
    sql_clear(sql);
    sql_printf(sql,
               "SELECT COUNT(*),MAX(order_id),SUM(mine AND status='%s'),SUM(mine AND status='%s')"
               "FROM(SELECT order_id,status,sku=",
               reserved, paid);
    sql_identifier(sql, sku);
    sql_printf(sql, " AS mine FROM orders WHERE order_id>%llu ORDER BY order_id LIMIT %d)o",
               (unsigned long long)after, LEDGER_HELD_ROWS);
}

enum ledger_result ledger_held_count(struct ledger *ledger, const char *sku,
                                     struct ledger_held *held)
{
    assert(!held->done);
    if (!held->begun && begin_count(ledger, sku, held) != LEDGER_OK)
        return LEDGER_FAILED;
    text_count(&ledger->sql, sku, held->counted_to);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = db_row(ledger->db);
    if (!row)
        return LEDGER_FAILED;
    held->done = ledger_u64(row[0]) < LEDGER_HELD_ROWS;
    if (row[1])
        held->counted_to = ledger_u64(row[1]);
    held->reserved += ledger_u64(row[2]);
    held->paid += ledger_u64(row[3]);
    return LEDGER_OK;
}

struct retirement {
    struct ledger *ledger;
    const struct ledger_sale *sale;
    const struct ledger_held *held;
};

/* Locks the sale's row and its segments, so that no order, nor any other change, is committed from
 * now on, and compares these. */
static enum db_result lock(const struct retirement *retirement, struct db *db)
{
    struct sql_text *sql = &retirement->ledger->sql;
    sql_clear(sql);
    sql_printf(sql, "SELECT round FROM sale WHERE sku=");
    sql_identifier(sql, retirement->sale->sku);
    sql_printf(sql, " FOR UPDATE");
    enum db_result result = ledger_query(retirement->ledger);
    if (result != DB_OK)
        return result;
    char **row = db_row(db);
    if (!row || ledger_u32(row[0]) != retirement->sale->round)
        return DB_NO;
    text_segments(sql, retirement->sale->sku);
    sql_printf(sql, " FOR UPDATE");
    result = ledger_query(retirement->ledger);
    if (result != DB_OK)
        return result;
    uint64_t fences = 0, sold = 0;
    read_segments(retirement->ledger, &fences, &sold);
    bool same = fences == retirement->held->fences && sold == retirement->held->sold;
    return same ? DB_OK : DB_NO;
}

static enum db_result retire_body(struct db *db, void *context)
{
    const struct retirement *retirement = context;
    const struct ledger_sale *sale = retirement->sale;
    struct sql_text *sql = &retirement->ledger->sql;
    enum db_result result = lock(retirement, db);
    if (result != DB_OK)
        return result;
    sql_clear(sql);
    ledger_round_end_text(sql, sale->sku, sale->round, sale->segments, true);
    sql_printf(sql, ";DELETE FROM stock_segment WHERE sku=");
    sql_identifier(sql, sale->sku);
    sql_printf(sql, ";DELETE FROM quota_count WHERE sku=");
    sql_identifier(sql, sale->sku);
    sql_printf(sql, ";DELETE FROM sale WHERE sku=");
    sql_identifier(sql, sale->sku);
    return ledger_query(retirement->ledger);
}

enum ledger_result ledger_retire(struct ledger *ledger, const struct ledger_sale *sale,
                                 const struct ledger_held *held)
{
    struct retirement retirement = {ledger, sale, held};
    assert(held->done && held->reserved == 0);
    return ledger_from_db(db_run(ledger->db, retire_body, &retirement));
}

enum ledger_result ledger_retired_find(struct ledger *ledger, const char *sku,
                                       uint32_t *segments_out)
{
    struct sql_text *sql = &ledger->sql;
    sql_clear(sql);
    sql_printf(sql, "SELECT segments FROM sale_round WHERE retired AND sku=");
    sql_identifier(sql, sku);
    sql_printf(sql, " ORDER BY round DESC LIMIT 1");
    return ledger_read_number(ledger, segments_out);
}
