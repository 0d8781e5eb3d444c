/* Many orders at a time, page by page: all of them, or those of one user. */
#include "sql/orders/orders.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"

/* Lists do not show the keys. */
#define SELECT "SELECT " LEDGER_RECORD_COLUMNS("NULL") " FROM orders o WHERE "

static void text_condition(struct sql_text *sql, const char *column, const char *value)
{
    if (value[0] != '\0')
        sql_printf(sql, " AND %-s=%s", column, value);
}

/* Completes and runs a SELECT that ends in its conditions on the id. Orders that make no sense are
 * left out. `last_out`: the id of the last row when there may be more; else 0. */
static enum ledger_result read_page(struct ledger *ledger, const struct ledger_filter *filter,
                                    size_t max, struct ledger_record *orders_out, size_t *count_out,
                                    uint64_t *last_out)
{
    size_t rows = 0;
    struct sql_text *sql = &ledger->sql;
    text_condition(sql, "sku", filter->sku);
    text_condition(sql, "user_id", filter->user_id);
    text_condition(sql, "status", filter->status);
    sql_printf(sql, " ORDER BY order_id LIMIT %zu", max);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row && rows < max; row = db_row(ledger->db), rows++) {
        *last_out = ledger_u64(row[0]);
        *count_out += ledger_record_read(ledger, &orders_out[*count_out], row);
    }
    if (rows < max)
        *last_out = 0;
    return LEDGER_OK;
}

/* A filter that lets little through must not make a call read the whole table. */
enum ledger_result ledger_orders_scan(struct ledger *ledger, const struct ledger_filter *filter,
                                      uint64_t after, size_t max, struct ledger_record *orders_out,
                                      size_t *count_out, uint64_t *next_out)
{
    uint64_t end = UINT64_MAX, last = 0;
    bool filters =
        filter->sku[0] != '\0' || filter->user_id[0] != '\0' || filter->status[0] != '\0';
    assert(max > 0 && max <= LEDGER_SCAN_MAX);
    *count_out = 0;
    *next_out = 0;
    if (filters && ledger_piece_end(ledger, ledger_read, after, LEDGER_SCAN_MAX, &end) != DB_OK)
        return LEDGER_FAILED;
    sql_begin(&ledger->sql, SELECT "order_id>%ju AND order_id<=%ju", after, end);
    if (read_page(ledger, filter, max, orders_out, count_out, &last) != LEDGER_OK)
        return LEDGER_FAILED;
    if (last != 0)
        *next_out = last;
    else if (end != UINT64_MAX)
        *next_out = end;
    return LEDGER_OK;
}

/* Finds the first LEDGER_USER_IDS_MAX orders of a user above `after`, sorted, and appends them as a
 * list for SQL. `last_out`: the last of them when there are more, else 0. */
static enum db_result find_user_orders(struct ledger *ledger, const char *user_id, uint64_t after,
                                       struct sql_text *list, uint64_t *last_out)
{
    uint64_t id = 0;
    size_t count = 0;
    sql_begin(&ledger->sql,
              "SELECT order_id FROM order_key WHERE user_id=%s AND order_id>%ju "
              "ORDER BY order_id LIMIT %d",
              user_id, after, LEDGER_USER_IDS_MAX + 1);
    enum db_result result = ledger_read(ledger);
    char **row = result == DB_OK ? db_row(ledger->db) : NULL;
    for (; row && count < LEDGER_USER_IDS_MAX; row = db_row(ledger->db)) {
        id = ledger_u64(row[0]);
        sql_printf(list, count++ == 0 ? "%ju" : ",%ju", id);
    }
    *last_out = row ? id : 0;
    return result;
}

enum ledger_result ledger_user_orders(struct ledger *ledger, const struct ledger_filter *filter,
                                      uint64_t after, size_t max, struct ledger_record *orders_out,
                                      size_t *count_out, uint64_t *next_out)
{
    struct sql_text list = {0};
    uint64_t last_id = 0, last = 0;
    assert(filter->user_id[0] != '\0' && max > 0);
    *count_out = 0;
    *next_out = 0;
    enum ledger_result result =
        ledger_from_db(find_user_orders(ledger, filter->user_id, after, &list, &last_id));
    if (result == LEDGER_OK && list.length > 0) {
        sql_begin(&ledger->sql, SELECT "order_id IN(");
        sql_append(&ledger->sql, list.text, list.length);
        sql_append(&ledger->sql, ")", 1);
        result = read_page(ledger, filter, max, orders_out, count_out, &last);
    }
    if (result == LEDGER_OK) /* the filter may leave few of these orders, and more follow */
        *next_out = last != 0 ? last : last_id;
    sql_free(&list);
    return result;
}
