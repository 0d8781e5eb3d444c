/* The rounds of a sale that have ended, as SQL. */
#include "sql/sales/ledger_round.h"

/* The version of the settings that a sale of the sku begins from. Those of a sale that was retired
 * must not come again, or whoever still has its settings would take them for the present ones. So a
 * later sale counts from the time of day, as changes are rarer than seconds; the rounds tell apart
 * sales of one second. */
#define FIRST_VERSION                                                                              \
    "IF(MAX(round)IS NULL,0,"                                                                      \
    "GREATEST(TIMESTAMPDIFF(SECOND,'2025-01-01',UTC_TIMESTAMP()),0)+16*MAX(round))"

void ledger_round_row_text(struct sql_text *sql, const char *sku)
{
    sql_printf(sql, "INSERT IGNORE INTO sale(sku,round,total,segments,settings_version)SELECT ");
    sql_identifier(sql, sku);
    sql_printf(sql, ",COALESCE(MAX(round),0),0,0," FIRST_VERSION " FROM sale_round WHERE sku=");
    sql_identifier(sql, sku);
}

void ledger_round_end_text(struct sql_text *sql, const char *sku, uint32_t round, uint32_t segments,
                           bool retired)
{
    sql_printf(sql, "INSERT IGNORE INTO "
                    "sale_round(sku,round,segments,retired,ended_at,last_id,step)SELECT ");
    sql_identifier(sql, sku);
    sql_printf(sql, ",%u,%u,%d,UTC_TIMESTAMP(3),COALESCE(MAX(order_id),0),'%s' FROM orders", round,
               segments, retired, round == 0 ? "done" : "keys");
}

/* The round before ended when this one began. An id begins with the ms since 2025; so neither the
 * id of an order that a clock has made too great, nor a clock of the ledger that was ahead, moves
 * the guess alone. A minute is more than the ids of working daemons differ by. */
void ledger_round_first_text(struct sql_text *sql, const char *sku, uint32_t round)
{
    sql_printf(sql, "COALESCE((SELECT GREATEST(LEAST(CAST(MAX(b.last_id)>>22 AS SIGNED),"
                    "TIMESTAMPDIFF(MICROSECOND,'2025-01-01',MAX(b.ended_at))DIV 1000)-60000,0)<<22 "
                    "FROM sale_round b WHERE b.sku=");
    sql_identifier(sql, sku);
    sql_printf(sql, " AND b.round<%u),0)", round);
}
