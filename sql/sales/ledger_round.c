/* Ends the rounds of a sale: notes their ends, counts their orders, expires the reserved ones. */
#include "sql/sales/ledger_round.h"

#include <assert.h>

#include "base/memory.h"
#include "sql/events/event_line.h"
#include "sql/ledger/ledger_query.h"
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"

enum { IDS_MAX = 500 }; /* of one statement: MariaDB makes a subquery of a list of 1000 */

/* ---- ended rounds, as SQL ---- */

void ledger_round_end_text(struct sql_text *sql, const char *sku, uint32_t round, uint32_t segments,
                           bool retired)
{
    sql_printf(sql,
               "INSERT IGNORE INTO sale_round(sku,round,segments,retired,ended_at,last_id,step)"
               "SELECT %s,%u,%u,%d,UTC_TIMESTAMP(3),COALESCE(MAX(order_id),0),%s FROM orders",
               sku, round, segments, retired, round == 0 ? "done" : "keys");
}

/* ---- the orders of a round ---- */

/* why_units: the units that a round's orders held when it ended are known from its segments. When
 * orders with as many have been seen, no more are left, and the rest of the table need not be read.
 * If orders are cancelled meanwhile, the table is read to its end.
 *
 * why_own_rows: a step locks its row of round_end before the orders. Nothing else locks both,
 * because a reset writes a row of its own, so this deadlocks with nobody. */

void ledger_held_text(struct sql_text *sql, const char *sku, uint32_t round)
{
    sql_begin(sql,
              "SELECT COUNT(*),MIN(order_id),MAX(order_id),SUM(held AND status='reserved'),"
              "SUM(held AND status='paid'),SUM(IF(held," LEDGER_UNITS_HELD ",0))"
              "FROM(SELECT order_id,status,qty,unreturned,round=%u AND sku=%s AS held FROM orders ",
              round, sku);
}

static void text_count(struct sql_text *sql, const char *sku, uint32_t round, uint32_t rows,
                       uint64_t next_id)
{
    ledger_held_text(sql, sku, round);
    if (next_id != 0)
        sql_printf(sql, "WHERE order_id<%ju ", next_id);
    sql_printf(sql, "ORDER BY order_id DESC LIMIT %u)o", rows);
}

/* Adds this piece to `use`. False when the server gave no row. */
static bool read_count(struct ledger *ledger, uint32_t rows, struct ledger_round_use *use)
{
    char **row = db_row(ledger->db);
    if (!row)
        return false;
    use->all_read = ledger_u32(row[0]) < rows;
    use->next_id = ledger_u64(row[1]);
    use->reserved += ledger_u32(row[3]);
    use->paid += ledger_u32(row[4]);
    use->units += ledger_u32(row[5]);
    return true;
}

enum ledger_result ledger_round_count(struct ledger *ledger, const char *sku, uint32_t round,
                                      uint32_t rows, struct ledger_round_use *use)
{
    assert(rows > 0 && !use->all_read);
    text_count(&ledger->sql, sku, round, rows, use->next_id);
    bool read = ledger_read(ledger) == DB_OK && read_count(ledger, rows, use);
    return read ? LEDGER_OK : LEDGER_FAILED;
}

enum ledger_result ledger_round_end_find(struct ledger *ledger, char sku_out[IDENTIFIER_SIZE],
                                         uint32_t *round_out)
{
    char **row;
    sql_begin(&ledger->sql, "SELECT sku,round FROM round_end LIMIT %d", LEDGER_DAMAGED_MAX);
    enum ledger_result result = ledger_find_round(ledger, "round_end", &row);
    if (result != LEDGER_OK)
        return result;
    ledger_identifier(sku_out, row[0]);
    *round_out = ledger_u32(row[1]);
    return LEDGER_OK;
}

/* Appends which orders end: reserved ones with ids from `from` on and below `below` (0: no
 * bound). */
static void text_ending(struct sql_text *sql, const char *sku, uint32_t round, uint64_t from,
                        uint64_t below)
{
    sql_printf(sql, " WHERE o.order_id>=%ju", from);
    if (below != 0)
        sql_printf(sql, " AND o.order_id<%ju", below);
    sql_printf(sql, " AND o.round=%u AND o.sku=%s AND %-s", round, sku,
               ledger_status_condition(LEDGER_EXPIRED));
}

/* Locks the orders that are to end, up to `rows` of them, and lists their ids. */
static enum db_result lock_ending(struct ledger *ledger, const char *sku, uint32_t round,
                                  uint64_t from, uint64_t below, uint64_t *ids_out, uint32_t rows,
                                  uint32_t *count_out)
{
    *count_out = 0;
    sql_begin(&ledger->sql, "SELECT o.order_id FROM orders o FORCE INDEX(PRIMARY)");
    text_ending(&ledger->sql, sku, round, from, below);
    sql_printf(&ledger->sql, " FOR UPDATE");
    enum db_result result = ledger_query(ledger);
    char **row = result == DB_OK ? db_row(ledger->db) : NULL;
    for (; row && *count_out < rows; row = db_row(ledger->db))
        ids_out[(*count_out)++] = ledger_u64(row[0]);
    return result;
}

/* Appends their end: status and events. */
static void text_end(struct ledger *ledger, const uint64_t *ids, uint32_t count)
{
    struct sql_text *sql = &ledger->sql;
    for (uint32_t first = 0; first < count; first += IDS_MAX) {
        struct event_list events = {ledger, LEDGER_EVENT_EXPIRED, false, 0};
        uint32_t end = count - first < IDS_MAX ? count : first + IDS_MAX;
        sql_printf(sql,
                   "UPDATE orders FORCE INDEX(PRIMARY)SET status=%s," LEDGER_VERSION_NEXT
                   " WHERE order_id IN",
                   ledger_status_name(LEDGER_EXPIRED));
        for (uint32_t i = first; i < end; i++)
            sql_printf(sql, i == first ? "(%ju" : ",%ju", ids[i]);
        sql_append(sql, ");", 2);
        for (uint32_t i = first; i < end; i++)
            event_list_add(&events, ids[i], NULL);
        event_list_end(&events);
    }
}

/* Notes its progress. The orders of an ended round can only become fewer, so those counted before
 * the end are all. */
static enum db_result end_step(struct ledger *ledger, const char *sku, uint32_t round,
                               uint32_t rows, uint64_t *ids, uint32_t *ended_out, bool *done_out)
{
    char **row;
    struct sql_text *sql = &ledger->sql;
    struct ledger_round_use piece = {.all_read = false};
    enum db_result result = ledger_do_row(
        ledger, &row, "SELECT units,next_id FROM round_end WHERE round=%u AND sku=%s FOR UPDATE",
        round, sku);
    if (result != DB_OK)
        return result;
    uint32_t units = ledger_u32(row[0]);
    uint64_t next_id = ledger_u64(row[1]);
    text_count(sql, sku, round, rows, next_id);
    result = ledger_query(ledger);
    if (result != DB_OK)
        return result;
    if (!read_count(ledger, rows, &piece))
        return DB_FAILED;
    units = piece.units < units ? units - piece.units : 0;
    *done_out = piece.all_read || units == 0;
    result = lock_ending(ledger, sku, round, piece.next_id, next_id, ids, rows, ended_out);
    if (result != DB_OK)
        return result;
    sql_clear(sql);
    text_end(ledger, ids, *ended_out);
    if (*done_out)
        sql_printf(sql, "DELETE FROM round_end WHERE round=%u AND sku=%s", round, sku);
    else
        sql_printf(sql, "UPDATE round_end SET next_id=%ju,units=%u WHERE round=%u AND sku=%s",
                   piece.next_id, units, round, sku);
    return ledger_query(ledger);
}

enum ledger_result ledger_round_end_step(struct ledger *ledger, const char *sku, uint32_t round,
                                         uint32_t rows, uint32_t *ended_out)
{
    bool done = false;
    uint32_t ended = 0;
    struct db_run run = {0};
    uint64_t *ids = memory_must(malloc(rows * sizeof *ids));
    assert(rows > 0);
    while (db_run(ledger->db, &run))
        run.result = end_step(ledger, sku, round, rows, ids, &ended, &done);
    free(ids);
    *ended_out = run.result == DB_OK ? ended : 0;
    return run.result == DB_OK && done ? LEDGER_NO : ledger_from_db(run.result);
}
