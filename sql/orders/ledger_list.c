/* Many orders at a time, page by page: all of them, or those of one user. */
#include "sql/orders/orders.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"

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
    sql_begin(&ledger->sql,
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

/* Finds the first LEDGER_USER_IDS_MAX orders of a user above `after`, sorted, and appends them as a
 * list for SQL. `last_out`: the last of them when there are more, else 0. False: the ledger failed.
 */
static bool find_user_orders(struct ledger *ledger, const char *user_id, uint64_t after,
                             struct sql_text *list, uint64_t *last_out)
{
    struct sql_text *sql = &ledger->sql;
    size_t count = 0;
    sql_begin(sql, "SELECT order_id FROM order_key WHERE user_id=");
    sql_user_id(sql, user_id);
    sql_printf(sql, " AND order_id>%llu ORDER BY order_id LIMIT %d", (unsigned long long)after,
               LEDGER_USER_IDS_MAX + 1);
    *last_out = 0;
    if (ledger_read(ledger) != DB_OK)
        return false;
    uint64_t id = 0;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        if (count == LEDGER_USER_IDS_MAX)
            *last_out = id;
        if (count++ == LEDGER_USER_IDS_MAX)
            break;
        id = ledger_u64(row[0]);
        sql_append(list, ",", count > 1);
        sql_number(list, id);
    }
    return true;
}

enum ledger_result ledger_user_orders(struct ledger *ledger, const struct ledger_filter *filter,
                                      uint64_t after, size_t max, struct ledger_listed *orders_out,
                                      size_t *count_out, uint64_t *next_out)
{
    struct sql_text list = {0};
    uint64_t last_id = 0, last = 0;
    assert(filter->user_id[0] != '\0' && max > 0);
    *count_out = 0;
    *next_out = 0;
    enum ledger_result result = LEDGER_FAILED;
    if (find_user_orders(ledger, filter->user_id, after, &list, &last_id))
        result = LEDGER_OK;
    if (result == LEDGER_OK && list.length > 0) {
        sql_clear(&ledger->sql);
        sql_append(&ledger->sql, columns, sizeof columns - 1);
        sql_printf(&ledger->sql, "order_id IN(");
        sql_append(&ledger->sql, list.text, list.length);
        sql_append(&ledger->sql, ")", 1);
        result = read_page(ledger, filter, max, orders_out, count_out, &last);
    }
    if (result == LEDGER_OK) /* the filter may leave few of these orders, and more follow */
        *next_out = last != 0 ? last : last_id;
    sql_free(&list);
    return result;
}
