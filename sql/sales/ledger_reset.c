/* Begins the next round of a sale. */
#include "sql/sales/sales.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"
#include "sql/sales/ledger_round.h"

struct beginning {
    struct ledger *ledger;
    struct ledger_reset *reset;
    const struct ledger_sale *sale; /* as the caller has read it, with the new settings */
    uint32_t round, version;        /* the former ones, also of a sale that was retired */
    struct ledger_segment *segments_out;
};

/* The settings' version from which a sale of the sku begins. Versions of a retired sale must not
 * come again: a process that still has its settings would take them for the present ones. So a
 * later sale counts from the time of day, as changes are rarer than seconds; rounds tell apart
 * sales of one second. */
#define FIRST_VERSION                                                                              \
    "IF(MAX(round)IS NULL,0,"                                                                      \
    "GREATEST(TIMESTAMPDIFF(SECOND,'2025-01-01',UTC_TIMESTAMP()),0)+16*MAX(round))"

/* Locks the sale, inserting a row of round 0 where there was none, so that two resets wait for each
 * other there. DB_NO: the sale is not as the caller has read it. */
static enum db_result lock_sale(struct beginning *beginning)
{
    struct ledger *ledger = beginning->ledger;
    const struct ledger_sale *sale = beginning->sale;
    char **row;
    /* A new row gets the last round of the sku's earlier sale, or 0, so rounds count on. */
    enum db_result result =
        ledger_do_row(ledger, &row,
                      "INSERT IGNORE INTO sale(sku,round,total,segments,settings_version)SELECT %s"
                      ",COALESCE(MAX(round),0),0,0," FIRST_VERSION " FROM sale_round WHERE sku=%s;"
                      "SELECT round,settings_version FROM sale WHERE sku=%s FOR UPDATE",
                      sale->sku, sale->sku, sale->sku);
    if (result != DB_OK)
        return result == DB_NO ? DB_FAILED : result;
    bool created = db_affected(ledger->db, 0) == 1;
    beginning->round = ledger_u32(row[0]);
    beginning->version = ledger_u32(row[1]);
    bool same = (created ? 0 : beginning->round) == sale->round &&
                (created ? 0 : beginning->version) == sale->settings.version;
    return same ? DB_OK : DB_NO;
}

/* Writes the key before units are read: a repeat that waited for its first try is a duplicate. */
static enum db_result write_key(struct beginning *beginning)
{
    const struct ledger_reset *reset = beginning->reset;
    const struct ledger_sale *sale = beginning->sale;
    struct sql_text *sql = &beginning->ledger->sql;
    if (!reset->key || reset->key[0] == '\0')
        return DB_OK;
    assert(strlen(reset->request) < LEDGER_RESET_TEXT_MAX);
    sql_begin(sql, "INSERT INTO sale_reset SET ");
    ledger_settings_text(sql, &sale->settings);
    sql_printf(sql, "round=%u,total=%u,segments=%u,request='%-s',sku=%s,idempotency_key=%s",
               beginning->round + 1, sale->total, sale->segments, reset->request, sale->sku,
               reset->key);
    return ledger_query(beginning->ledger);
}

/* Locks the segments, so that no order is under way, and adds up what orders of the round hold. */
static enum db_result read_held(struct beginning *beginning)
{
    struct ledger *ledger = beginning->ledger;
    uint32_t held = 0;
    enum db_result result = ledger_do(ledger, LEDGER_SEGMENTS_SELECT " ORDER BY segment FOR UPDATE",
                                      beginning->sale->sku);
    if (result != DB_OK)
        return result;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db))
        held += ledger_u32(row[3]); /* unchecked: the segment is made anew */
    beginning->reset->held = held;
    return held > 0 && !beginning->reset->end_round ? DB_NO : DB_OK;
}

static void text_sale(struct sql_text *sql, const struct beginning *beginning)
{
    const struct ledger_sale *sale = beginning->sale;
    uint32_t held = beginning->reset->held;
    sql_begin(sql, "UPDATE sale SET ");
    ledger_settings_text(sql, &sale->settings);
    sql_printf(sql, "settings_version=%u,round=%u,total=%u,segments=%u WHERE sku=%s;",
               beginning->version + 1, beginning->round + 1, sale->total, sale->segments,
               sale->sku);
    if (held > 0)
        sql_printf(sql, "INSERT INTO round_end SET round=%u,units=%u,sku=%s;", beginning->round,
                   held, sale->sku);
}

/* The first `total % segments` segments get one unit more than the others. Fences never go back, so
 * that a late transaction under an older lock does not find its own fence. */
static void text_rows(struct sql_text *sql, const struct beginning *beginning)
{
    const struct ledger_sale *sale = beginning->sale;
    const uint64_t *fences = beginning->reset->fences;
    uint32_t base = sale->total / sale->segments;
    uint32_t extra = sale->total % sale->segments;
    sql_printf(sql, "INSERT INTO stock_segment"
                    "(sku,segment,round,settings_version,capacity,sold,fence)VALUES");
    for (uint32_t i = 0; i < sale->segments; i++)
        sql_printf(sql, "%-s(%s,%u,%u,%u,%u,0,%ju)", i == 0 ? "" : ",", sale->sku, i,
                   beginning->round + 1, beginning->version + 1, base + (i < extra), fences[i]);
    sql_printf(sql,
               "ON DUPLICATE KEY UPDATE round=VALUES(round),"
               "settings_version=VALUES(settings_version),sold=0,"
               "capacity=VALUES(capacity),fence=GREATEST(fence+1,VALUES(fence));"
               "DELETE FROM stock_segment WHERE sku=%s AND segment>=%u;",
               sale->sku, sale->segments);
    ledger_round_end_text(sql, sale->sku, beginning->round, sale->segments, false);
    sql_printf(sql, ";" LEDGER_SEGMENTS_SELECT " ORDER BY segment", sale->sku);
}

static enum db_result begin_round(struct beginning *beginning)
{
    const struct ledger_sale *sale = beginning->sale;
    struct sql_text *sql = &beginning->ledger->sql;
    beginning->reset->held = 0;
    enum db_result result = lock_sale(beginning);
    if (result == DB_OK)
        result = write_key(beginning);
    if (result == DB_OK)
        result = read_held(beginning);
    if (result != DB_OK)
        return result;
    text_sale(sql, beginning);
    text_rows(sql, beginning);
    result = ledger_query(beginning->ledger);
    size_t count = 0;
    if (result == DB_OK &&
        (ledger_segments_read(beginning->ledger, sale->sku, beginning->segments_out, sale->segments,
                              &count) != LEDGER_OK ||
         count != sale->segments))
        return DB_FAILED;
    return result;
}

enum ledger_result ledger_reset(struct ledger *ledger, struct ledger_reset *reset,
                                struct ledger_sale *sale, struct ledger_segment *segments_out)
{
    assert(sale->segments > 0 && sale->segments <= LEDGER_SEGMENTS_MAX);
    assert(sale->segments <= sale->total);
    struct beginning beginning = {
        .ledger = ledger, .reset = reset, .sale = sale, .segments_out = segments_out};
    struct db_run run = {0};
    while (db_run(ledger->db, &run))
        run.result = begin_round(&beginning);
    if (run.result == DB_OK) {
        sale->round = beginning.round + 1;
        sale->settings.version = beginning.version + 1;
        sale->settings.counting = false;
        sale->sold = 0;
    }
    return ledger_from_db(run.result);
}

enum ledger_result ledger_reset_find(struct ledger *ledger, const char *sku, const char *key,
                                     struct ledger_sale *sale_out,
                                     char request_out[LEDGER_RESET_TEXT_MAX], bool *retired_out)
{
    char **row;
    /* The units sold, the settings' version and a count under way are no longer known. */
    enum ledger_result result = ledger_read_row(
        ledger, &row,
        "SELECT sku,round,total,segments,0,0," LEDGER_MS_OF("starts_at") "," LEDGER_MS_OF(
            "ends_at") ",per_user_limit,pay_within_s,paused,0,refund_late,hold_max_s,grace_s,"
                       "request,"
                       "EXISTS(SELECT 1 FROM sale_round e WHERE e.sku=sale_reset.sku AND e.retired "
                       "AND e.round>=sale_reset.round)FROM sale_reset WHERE sku=%s "
                       "AND idempotency_key=%s",
        sku, key);
    if (result != LEDGER_OK)
        return result;
    snprintf(request_out, LEDGER_RESET_TEXT_MAX, "%s", row[LEDGER_SALE_WIDTH]);
    *retired_out = ledger_u32(row[LEDGER_SALE_WIDTH + 1]) != 0;
    return ledger_sale_read(ledger, sale_out, row) ? LEDGER_OK : LEDGER_DAMAGED;
}
