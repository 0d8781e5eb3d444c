/* Ends a sale: deletes its row and its segments; its orders stay.
 *
 * why_units: where the orders of the round begin is a guess, by the clocks that made their ids. So
 * the guess decides nothing: the count is complete only when the orders found have as many units as
 * the segments have sold; until then it goes on, to the end of the table and then from its
 * beginning. The reset that ended an earlier round finds its reserved orders, counting in the same
 * way (round_end).
 *
 * why_fences: orders have no index by their sale, so orders that hold units are counted before, in
 * pieces and without any lock. An order committed where the count has passed is noticed: it changes
 * the units sold or the fence of a segment, and under their locks both must be as before the count.
 * Neither suffices alone: orders sold by counters leave the fence as it is, and a paid order may be
 * refunded, which raises the fence, while another takes its units. A paid order that is reserved
 * again changes neither, but the number in unpaid_count; fences grow as well, so one sum does. */
#include "sql/sales/sales.h"

#include <assert.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"
#include "sql/sales/ledger_round.h"

#define SEGMENTS_SELECT                                                                            \
    "SELECT SUM(fence)+COALESCE((SELECT count FROM unpaid_count WHERE sku=%s),0),SUM(sold)"        \
    "FROM stock_segment WHERE sku=%s"

/* Notes the segments' sums and where to begin. LEDGER_NO: an earlier round is still being ended. */
static enum ledger_result begin_count(struct ledger *ledger, const struct ledger_sale *sale,
                                      struct ledger_held *held)
{
    char **row;
    *held = (struct ledger_held){.round = sale->round};
    ledger_identifier(held->sku, sale->sku);
    if (ledger_read_row(ledger, &row, SEGMENTS_SELECT, sale->sku, sale->sku) != LEDGER_OK)
        return LEDGER_FAILED;
    held->fences = ledger_u64(row[0]);
    held->sold = ledger_u64(row[1]);
    if (ledger_read_row(ledger, &row,
                        "SELECT " LEDGER_ROUND_FIRST
                        ",(SELECT COUNT(*)FROM round_end WHERE sku=%s)",
                        sale->sku, sale->round, sale->sku) != LEDGER_OK)
        return LEDGER_FAILED;
    held->first_id = held->counted_to = ledger_u64(row[0]);
    held->from_zero = held->first_id == 0;
    held->done = held->sold == 0;
    held->begun = ledger_u64(row[1]) == 0;
    return held->begun ? LEDGER_OK : LEDGER_NO;
}

static void add_piece(struct ledger_held *held, char **row)
{
    bool last = ledger_u64(row[0]) < LEDGER_HELD_ROWS;
    if (row[2])
        held->counted_to = ledger_u64(row[2]);
    held->reserved += ledger_u64(row[3]);
    held->paid += ledger_u64(row[4]);
    held->units += ledger_u64(row[5]);
    held->done = held->units >= held->sold || (last && held->from_zero);
    if (last && !held->done) {
        held->from_zero = true;
        held->counted_to = 0;
    }
}

/* Reads from first_id to the end of the table; if orders are still missing, those before it. */
enum ledger_result ledger_held_count(struct ledger *ledger, const struct ledger_sale *sale,
                                     struct ledger_held *held)
{
    struct sql_text *sql = &ledger->sql;
    bool same = held->begun && held->round == sale->round && strcmp(held->sku, sale->sku) == 0;
    enum ledger_result result = same ? LEDGER_OK : begin_count(ledger, sale, held);
    if (result != LEDGER_OK || held->done)
        return result;
    ledger_held_text(sql, held->sku, held->round);
    sql_printf(sql, "WHERE order_id>%ju", held->counted_to);
    if (held->from_zero && held->first_id > 0)
        sql_printf(sql, " AND order_id<=%ju", held->first_id);
    sql_printf(sql, " ORDER BY order_id LIMIT %d)o", LEDGER_HELD_ROWS);
    char **row = ledger_read(ledger) == DB_OK ? db_row(ledger->db) : NULL;
    if (!row)
        return LEDGER_FAILED;
    add_piece(held, row);
    return LEDGER_OK;
}

/* Locks the sale's row and its segments, so that no order and no other change is committed from now
 * on, and compares the sums. */
static enum db_result lock(struct ledger *ledger, const struct ledger_sale *sale,
                           const struct ledger_held *held)
{
    char **row;
    enum db_result result =
        ledger_do_row(ledger, &row, "SELECT round FROM sale WHERE sku=%s FOR UPDATE", sale->sku);
    if (result == DB_OK && ledger_u32(row[0]) != sale->round)
        result = DB_NO;
    if (result == DB_OK)
        result = ledger_do_row(ledger, &row, SEGMENTS_SELECT " FOR UPDATE", sale->sku, sale->sku);
    if (result != DB_OK)
        return result;
    uint64_t fences = ledger_u64(row[0]), sold = ledger_u64(row[1]);
    return fences == held->fences && sold == held->sold ? DB_OK : DB_NO;
}

static enum db_result count_refunds(struct ledger *ledger, const struct ledger_sale *sale,
                                    struct ledger_held *held)
{
    char **row;
    enum db_result result =
        ledger_do_row(ledger, &row,
                      "SELECT COUNT(*)FROM(SELECT 1 FROM refund_due FORCE INDEX(counted)"
                      "WHERE sku=%s AND due_at IS NOT NULL LIMIT 1000)d",
                      sale->sku);
    held->refunds_due = result == DB_OK ? ledger_u32(row[0]) : 0;
    return held->refunds_due > 0 ? DB_NO : result;
}

static enum db_result retire(struct ledger *ledger, const struct ledger_sale *sale,
                             struct ledger_held *held, bool refunds_elsewhere)
{
    struct sql_text *sql = &ledger->sql;
    held->refunds_due = 0;
    enum db_result result = lock(ledger, sale, held);
    if (result == DB_OK && !refunds_elsewhere)
        result = count_refunds(ledger, sale, held);
    if (result != DB_OK)
        return result;
    sql_clear(sql);
    if (refunds_elsewhere)
        sql_printf(sql,
                   "UPDATE refund_due FORCE INDEX(counted)SET due_at=NULL "
                   "WHERE sku=%s AND due_at IS NOT NULL;",
                   sale->sku);
    ledger_round_end_text(sql, sale->sku, sale->round, sale->segments, true);
    sql_printf(sql,
               ";DELETE FROM stock_segment WHERE sku=%s;DELETE FROM quota_count WHERE sku=%s;"
               "DELETE FROM sale WHERE sku=%s",
               sale->sku, sale->sku, sale->sku);
    return ledger_query(ledger);
}

enum ledger_result ledger_retire(struct ledger *ledger, const struct ledger_sale *sale,
                                 struct ledger_held *held, bool refunds_elsewhere)
{
    struct db_run run = {0};
    assert(held->done && held->reserved == 0);
    while (db_run(ledger->db, &run))
        run.result = retire(ledger, sale, held, refunds_elsewhere);
    return ledger_from_db(run.result);
}

enum ledger_result ledger_retired_find(struct ledger *ledger, const char *sku,
                                       uint32_t *segments_out)
{
    char **row;
    enum ledger_result result = ledger_read_row(
        ledger, &row,
        "SELECT segments FROM sale_round WHERE retired AND sku=%s ORDER BY round DESC LIMIT 1",
        sku);
    if (result != LEDGER_OK)
        return result;
    *segments_out = ledger_u32(row[0]);
    if (*segments_out >= 1 && *segments_out <= LEDGER_SEGMENTS_MAX)
        return LEDGER_OK;
    ledger_note_damage(ledger, "sale_round: sku '%s', segments %u", sku, *segments_out);
    return LEDGER_DAMAGED;
}
