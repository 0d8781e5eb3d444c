/* Many orders at a time, page by page: all of them, or those of one user. */
#include "sql/orders/ledger_list.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sql/orders/ledger_index.h"
#include "sql/ledger_query.h"
#include "sql/orders/ledger_status.h"

static const char columns[] =
    "SELECT order_id,sku,user_id,qty,segment,status,created_at,expires_at,round FROM orders "
    "WHERE ";

static bool read_listed(struct ledger *ledger, struct ledger_listed *listed, char **row)
{
    bool valid = ledger_identifier_read(listed->sku, row[1]) && row[2] &&
                 user_id_copy(row[2], strlen(row[2]), listed->user_id) &&
                 ledger_number_valid(row[3], 1, LEDGER_TOTAL_MAX) && row[5] &&
                 ledger_status_known(row[5]) && ledger_number_valid(row[8], 0, LEDGER_ROUND_MAX);
    listed->order_id = ledger_u64(row[0]);
    if (!valid) {
        ledger_note_damage(ledger,
                           "orders: order_id %s, sku '%s', round %s, qty %s, segment %s, status "
                           "'%s', user_id '%s'",
                           row[0], row[1], row[8], row[3], row[4] ? row[4] : "NULL", row[5],
                           row[2]);
        return false;
    }
    listed->qty = ledger_u32(row[3]);
    listed->segment = ledger_u32(row[4]);
    snprintf(listed->status, sizeof listed->status, "%s", row[5]);
    ledger_time_read(listed->created_at, row[6]);
    ledger_time_read(listed->expires_at, row[7]);
    listed->round = ledger_u32(row[8]);
    return true;
}

static bool filters(const struct ledger_filter *filter)
{
    return filter->sku[0] != '\0' || filter->user_id[0] != '\0' || filter->status[0] != '\0';
}

static void text_condition(struct sql_text *sql, const char *column, const char *value)
{
    if (value[0] == '\0')
        return;
    sql_printf(sql, " AND %s=", column);
    sql_identifier(sql, value);
}

/* Completes and runs a SELECT that ends in its conditions on the id. Orders that make no sense are
 * left out. `last_out`: the id of the last row when there may be more; else 0. */
static enum ledger_result read_page(struct ledger *ledger, const struct ledger_filter *filter,
                                    size_t max, struct ledger_listed *orders_out, size_t *count_out,
                                    uint64_t *last_out)
{
    size_t rows = 0;
    struct sql_text *sql = &ledger->sql;
    text_condition(sql, "sku", filter->sku);
    if (filter->user_id[0] != '\0') {
        sql_printf(sql, " AND user_id=");
        sql_user_id(sql, filter->user_id);
    }
    text_condition(sql, "status", filter->status);
    sql_printf(sql, " ORDER BY order_id LIMIT %zu", max);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row && rows < max; row = db_row(ledger->db), rows++) {
        *last_out = ledger_u64(row[0]);
        *count_out += read_listed(ledger, &orders_out[*count_out], row);
    }
    if (rows < max)
        *last_out = 0;
    return LEDGER_OK;
}

/* Finds the last id that a call may read, so that a filter that lets little through does not make
 * it read the whole table; UINT64_MAX when fewer rows are left. */
static enum ledger_result scan_end(struct ledger *ledger, uint64_t after, uint64_t *end_out)
{
    *end_out = UINT64_MAX;
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql,
               "SELECT order_id FROM orders WHERE order_id>%llu ORDER BY order_id LIMIT %d,1",
               (unsigned long long)after, LEDGER_SCAN_MAX - 1);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = db_row(ledger->db);
    if (row)
        *end_out = ledger_u64(row[0]);
    return LEDGER_OK;
}

enum ledger_result ledger_orders_scan(struct ledger *ledger, const struct ledger_filter *filter,
                                      uint64_t after, size_t max, struct ledger_listed *orders_out,
                                      size_t *count_out, uint64_t *next_out)
{
    uint64_t end = UINT64_MAX, last = 0;
    assert(max > 0 && max <= LEDGER_SCAN_MAX);
    *count_out = 0;
    *next_out = 0;
    if (filters(filter) && scan_end(ledger, after, &end) != LEDGER_OK)
        return LEDGER_FAILED;
    sql_clear(&ledger->sql);
    sql_append(&ledger->sql, columns, sizeof columns - 1);
    sql_printf(&ledger->sql, "order_id>%llu AND order_id<=%llu", (unsigned long long)after,
               (unsigned long long)end);
    if (read_page(ledger, filter, max, orders_out, count_out, &last) != LEDGER_OK)
        return LEDGER_FAILED;
    if (last != 0)
        *next_out = last;
    else if (end != UINT64_MAX)
        *next_out = end;
    return LEDGER_OK;
}

enum ledger_result ledger_user_orders(struct ledger *ledger, const struct ledger_filter *filter,
                                      uint64_t after, size_t max, struct ledger_listed *orders_out,
                                      size_t *count_out, uint64_t *next_out)
{
    struct ledger_order_ids ids = {.after = after};
    uint64_t last = 0;
    assert(filter->user_id[0] != '\0' && max > 0);
    *count_out = 0;
    *next_out = 0;
    if (!ledger_index_find(ledger, filter->user_id, &ids))
        return LEDGER_FAILED;
    uint64_t end = ids.end == UINT64_MAX ? 0 : ids.end;
    if (ids.count == 0) {
        *next_out = end;
        return LEDGER_OK;
    }
    sql_clear(&ledger->sql);
    sql_append(&ledger->sql, columns, sizeof columns - 1);
    for (size_t i = 0; i < ids.count; i++) {
        sql_append(&ledger->sql, i == 0 ? "order_id IN(" : ",", i == 0 ? 12 : 1);
        sql_number(&ledger->sql, ids.ids[i]);
    }
    sql_append(&ledger->sql, ")", 1);
    if (read_page(ledger, filter, max, orders_out, count_out, &last) != LEDGER_OK)
        return LEDGER_FAILED;
    if (last != 0)
        *next_out = last;
    else if (ids.more) /* the filter left few of these ids, but the index has more */
        *next_out = ids.ids[ids.count - 1];
    else
        *next_out = end;
    return LEDGER_OK;
}
