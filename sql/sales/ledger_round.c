/* Rounds of a sale: noted when they end, their orders counted, and the reserved ones ended. */
#include "sql/sales/ledger_round.h"

#include <assert.h>

#include "sql/ledger/ledger_query.h"
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"

/* ---- ended rounds, as SQL ---- */

/* The version of the settings that a sale of the sku begins from. Those of a sale that was retired
 * must not come again, or whoever still has its settings would take them for the present ones. So a
 * later sale counts from the time of day, as changes are rarer than seconds; the rounds tell apart
 * sales of one second. */
#define FIRST_VERSION                                                                              \
    "IF(MAX(round)IS NULL,0,"                                                                      \
    "GREATEST(TIMESTAMPDIFF(SECOND,'2025-01-01',UTC_TIMESTAMP()),0)+16*MAX(round))"

void ledger_round_row_text(struct sql_text *sql, const char *sku)
{
    sql_text_identifier(
        sql, "INSERT IGNORE INTO sale(sku,round,total,segments,settings_version)SELECT ", sku);
    sql_printf(sql, ",COALESCE(MAX(round),0),0,0," FIRST_VERSION " FROM sale_round WHERE sku=");
    sql_identifier(sql, sku);
}

void ledger_round_end_text(struct sql_text *sql, const char *sku, uint32_t round, uint32_t segments,
                           bool retired)
{
    sql_text_identifier(sql,
                        "INSERT IGNORE INTO "
                        "sale_round(sku,round,segments,retired,ended_at,last_id,step)SELECT ",
                        sku);
    sql_printf(sql, ",%u,%u,%d,UTC_TIMESTAMP(3),COALESCE(MAX(order_id),0),'%s' FROM orders", round,
               segments, retired, round == 0 ? "done" : "keys");
}

/* The round before ended when this one began. An id begins with the ms since 2025; so neither the
 * id of an order that a clock has made too great, nor a clock of the ledger that was ahead, moves
 * the guess alone. A minute is more than the ids of working daemons differ by. */
void ledger_round_first_text(struct sql_text *sql, const char *sku, uint32_t round)
{
    sql_text_identifier(
        sql,
        "COALESCE((SELECT GREATEST(LEAST(CAST(MAX(b.last_id)>>22 AS SIGNED),"
        "TIMESTAMPDIFF(MICROSECOND,'2025-01-01',MAX(b.ended_at))DIV 1000)-60000,0)<<22 "
        "FROM sale_round b WHERE b.sku=",
        sku);
    sql_printf(sql, " AND b.round<%u),0)", round);
}

/* ---- the orders of a round ---- */

/* why_units: the units that a round's orders held when it ended are known from its segments. When
 * orders with as many have been seen, none are left, and the rest of the table need not be read.
 * Orders that are cancelled meanwhile hold none any more; then it is read to its end.
 *
 * why_own_rows: a step locks its row of round_end before the orders. Nothing else locks both, as a
 * reset writes a row of its own, so this deadlocks with nobody. */

struct step {
    struct ledger *ledger;
    const char *sku;
    uint32_t round;
    uint32_t rows;
    uint32_t ended;
    bool done;
};

static void text_count(struct sql_text *sql, const char *sku, uint32_t round, uint32_t rows,
                       uint64_t next_id)
{
    sql_printf(sql,
               "SELECT COUNT(*),MIN(order_id),SUM(held AND status='%s'),"
               "SUM(held AND status='%s'),SUM(IF(held,qty,0))FROM("
               "SELECT order_id,status,qty,round=%u AND status IN('%s','%s')AND sku=",
               ledger_status_name(LEDGER_RESERVED), ledger_status_name(LEDGER_PAID), round,
               ledger_status_name(LEDGER_RESERVED), ledger_status_name(LEDGER_PAID));
    sql_identifier(sql, sku);
    sql_printf(sql, " held FROM orders ");
    if (next_id != 0)
        sql_printf(sql, "WHERE order_id<%llu ", (unsigned long long)next_id);
    sql_printf(sql, "ORDER BY order_id DESC LIMIT %u)o", rows);
}

/* `use` gets what this piece adds. False when the server gave no row. */
static bool read_count(struct ledger *ledger, uint32_t rows, struct ledger_round_use *use)
{
    char **row = db_row(ledger->db);
    if (!row)
        return false;
    use->all_read = ledger_u32(row[0]) < rows;
    use->next_id = ledger_u64(row[1]);
    use->reserved += ledger_u32(row[2]);
    use->paid += ledger_u32(row[3]);
    use->units += ledger_u32(row[4]);
    return true;
}

enum ledger_result ledger_round_count(struct ledger *ledger, const char *sku, uint32_t round,
                                      uint32_t rows, struct ledger_round_use *use)
{
    assert(rows > 0 && !use->all_read);
    sql_clear(&ledger->sql);
    text_count(&ledger->sql, sku, round, rows, use->next_id);
    if (ledger_read(ledger) != DB_OK || !read_count(ledger, rows, use))
        return LEDGER_FAILED;
    return LEDGER_OK;
}

enum ledger_result ledger_round_end_find(struct ledger *ledger, char sku_out[IDENTIFIER_SIZE],
                                         uint32_t *round_out)
{
    sql_begin(&ledger->sql, "SELECT sku,round FROM round_end LIMIT %d", LEDGER_DAMAGED_MAX);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = ledger_round_row(ledger, "round_end");
    if (!row)
        return LEDGER_NO;
    ledger_identifier(sku_out, row[0]);
    *round_out = ledger_u32(row[1]);
    return LEDGER_OK;
}

static void text_key(struct sql_text *sql, const struct step *step)
{
    sql_printf(sql, " WHERE round=%u AND sku=", step->round);
    sql_identifier(sql, step->sku);
}

static enum db_result lock(struct step *step, struct db *db, uint32_t *units_out,
                           uint64_t *next_id_out)
{
    struct sql_text *sql = &step->ledger->sql;
    sql_begin(sql, "SELECT units,next_id FROM round_end");
    text_key(sql, step);
    sql_printf(sql, " FOR UPDATE");
    enum db_result result = ledger_query(step->ledger);
    char **row = result == DB_OK ? db_row(db) : NULL;
    if (!row)
        return result == DB_OK ? DB_NO : result;
    *units_out = ledger_u32(row[0]);
    *next_id_out = ledger_u64(row[1]);
    return DB_OK;
}

/* Ends the reserved orders of the piece, and notes how far it came. The orders of a round that is
 * over can only become fewer, so those counted before are all. */
static void text_end(struct sql_text *sql, const struct step *step, uint64_t from, uint64_t below,
                     uint32_t units)
{
    sql_printf(sql, "UPDATE orders o FORCE INDEX(PRIMARY)SET o.status='%s' WHERE o.order_id>=%llu",
               ledger_status_name(LEDGER_EXPIRED), (unsigned long long)from);
    if (below != 0)
        sql_printf(sql, " AND o.order_id<%llu", (unsigned long long)below);
    sql_printf(sql, " AND o.round=%u AND o.sku=", step->round);
    sql_identifier(sql, step->sku);
    sql_append(sql, " AND ", 5);
    ledger_status_text(sql, LEDGER_EXPIRED);
    if (step->done)
        sql_printf(sql, ";DELETE FROM round_end");
    else
        sql_printf(sql, ";UPDATE round_end SET next_id=%llu,units=%u", (unsigned long long)from,
                   units);
    text_key(sql, step);
}

static enum db_result step_body(struct db *db, void *context)
{
    struct step *step = context;
    struct sql_text *sql = &step->ledger->sql;
    struct ledger_round_use piece = {.all_read = false};
    uint32_t units = 0;
    uint64_t next_id = 0;
    enum db_result result = lock(step, db, &units, &next_id);
    if (result != DB_OK)
        return result;
    sql_clear(sql);
    text_count(sql, step->sku, step->round, step->rows, next_id);
    result = ledger_query(step->ledger);
    if (result != DB_OK)
        return result;
    if (!read_count(step->ledger, step->rows, &piece))
        return DB_FAILED;
    units = piece.units < units ? units - piece.units : 0;
    step->done = piece.all_read || units == 0;
    sql_clear(sql);
    text_end(sql, step, piece.next_id, next_id, units);
    result = ledger_query(step->ledger);
    step->ended = (uint32_t)db_affected(db, 0);
    return result;
}

enum ledger_result ledger_round_end_step(struct ledger *ledger, const char *sku, uint32_t round,
                                         uint32_t rows, uint32_t *ended_out)
{
    struct step step = {.ledger = ledger, .sku = sku, .round = round, .rows = rows};
    assert(rows > 0);
    enum ledger_result result = ledger_from_db(db_run(ledger->db, step_body, &step));
    *ended_out = result == LEDGER_OK ? step.ended : 0;
    return result == LEDGER_OK && step.done ? LEDGER_NO : result;
}
