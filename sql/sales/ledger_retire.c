/* The end of a sale: its row and its segments go, its orders stay.
 *
 * why_units: where the orders of the round begin is a guess, by the clocks that made their ids. So
 * the guess decides nothing: only orders with as many units as the segments have sold are all, and
 * as long as fewer are found, the count goes on, to the end of the table and then from its
 * beginning. Reserved orders of earlier rounds are found by the reset that ended their round, which
 * counts in the same way (round_end).
 *
 * why_fences: orders have no index by their sale, so those that hold units are counted before, in
 * pieces and without any lock. An order that is committed behind the count is found all the same:
 * it changes the units sold or the fence of a segment, and under their locks both must be as
 * before the count. Neither tells by itself: orders sold by counters leave the fence as it is, and
 * a paid order may be cancelled, which raises the fence, while another takes its units. */
#include "sql/sales/sales.h"

#include <assert.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"
#include "sql/sales/ledger_round.h"
#include "sql/orders/orders.h"

static void text_segments(struct sql_text *sql, const char *sku)
{
    sql_begin(sql, "SELECT SUM(fence),SUM(sold)FROM stock_segment WHERE sku=");
    sql_identifier(sql, sku);
}

static void read_segments(struct ledger *ledger, uint64_t *fences_out, uint64_t *sold_out)
{
    char **row = db_row(ledger->db);
    *fences_out = row ? ledger_u64(row[0]) : 0;
    *sold_out = row ? ledger_u64(row[1]) : 0;
}

/* Notes the segments' sums and where to begin. LEDGER_NO: a round before is still being ended. */
static enum ledger_result begin_count(struct ledger *ledger, const struct ledger_sale *sale,
                                      struct ledger_held *held)
{
    struct sql_text *sql = &ledger->sql;
    *held = (struct ledger_held){.round = sale->round};
    ledger_identifier(held->sku, sale->sku);
    text_segments(sql, sale->sku);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    read_segments(ledger, &held->fences, &held->sold);
    sql_begin(sql, "SELECT ");
    ledger_round_first_text(sql, sale->sku, sale->round);
    sql_text_identifier(sql, ",(SELECT COUNT(*)FROM round_end WHERE sku=", sale->sku);
    sql_append(sql, ")", 1);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = db_row(ledger->db);
    if (!row)
        return LEDGER_FAILED;
    held->first_id = held->counted_to = ledger_u64(row[0]);
    held->from_zero = held->first_id == 0;
    held->done = held->sold == 0;
    held->begun = ledger_u64(row[1]) == 0;
    return held->begun ? LEDGER_OK : LEDGER_NO;
}

/* Behind first_id to the end of the table; then, as they are fewer than they should be, before. */
static void text_count(struct sql_text *sql, const struct ledger_held *held)
{
    const char *reserved = ledger_status_name(LEDGER_RESERVED);
    const char *paid = ledger_status_name(LEDGER_PAID);
    sql_begin(sql,
              "SELECT COUNT(*),MAX(order_id),SUM(held AND status='%s'),SUM(held AND status='%s'),"
              "SUM(IF(held,qty,0))FROM(SELECT order_id,status,qty,round=%u AND "
              "status IN('%s','%s')AND sku=",
              reserved, paid, held->round, reserved, paid);
    sql_identifier(sql, held->sku);
    sql_printf(sql, " AS held FROM orders WHERE order_id>%llu",
               (unsigned long long)held->counted_to);
    if (held->from_zero && held->first_id > 0)
        sql_printf(sql, " AND order_id<=%llu", (unsigned long long)held->first_id);
    sql_printf(sql, " ORDER BY order_id LIMIT %d)o", LEDGER_HELD_ROWS);
}

static void add_piece(struct ledger_held *held, char **row)
{
    bool last = ledger_u64(row[0]) < LEDGER_HELD_ROWS;
    if (row[1])
        held->counted_to = ledger_u64(row[1]);
    held->reserved += ledger_u64(row[2]);
    held->paid += ledger_u64(row[3]);
    held->units += ledger_u64(row[4]);
    held->done = held->units >= held->sold || (last && held->from_zero);
    if (last && !held->done) {
        held->from_zero = true;
        held->counted_to = 0;
    }
}

enum ledger_result ledger_held_count(struct ledger *ledger, const struct ledger_sale *sale,
                                     struct ledger_held *held)
{
    bool same = held->begun && held->round == sale->round && strcmp(held->sku, sale->sku) == 0;
    enum ledger_result result = same ? LEDGER_OK : begin_count(ledger, sale, held);
    if (result != LEDGER_OK || held->done)
        return result;
    text_count(&ledger->sql, held);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = db_row(ledger->db);
    if (!row)
        return LEDGER_FAILED;
    add_piece(held, row);
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
    sql_begin(sql, "SELECT round FROM sale WHERE sku=");
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
    sql_text_identifier(sql, ";DELETE FROM stock_segment WHERE sku=", sale->sku);
    sql_text_identifier(sql, ";DELETE FROM quota_count WHERE sku=", sale->sku);
    sql_text_identifier(sql, ";DELETE FROM sale WHERE sku=", sale->sku);
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
    sql_begin(sql, "SELECT segments FROM sale_round WHERE retired AND sku=");
    sql_identifier(sql, sku);
    sql_printf(sql, " ORDER BY round DESC LIMIT 1");
    enum ledger_result found = ledger_read_number(ledger, segments_out);
    if (found != LEDGER_OK || (*segments_out >= 1 && *segments_out <= LEDGER_SEGMENTS_MAX))
        return found;
    ledger_note_damage(ledger, "sale_round: sku '%s', segments %u", sku, *segments_out);
    return LEDGER_DAMAGED;
}
