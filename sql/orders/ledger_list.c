/* Lists orders page by page: all of them, or one user's. */
#include "sql/orders/orders.h"

#include <assert.h>

#include "sql/ledger/ledger_query.h"

/* Lists do not show the keys. */
#define SELECT "SELECT " LEDGER_RECORD_COLUMNS("NULL") " FROM orders o WHERE "

static void text_condition(struct sql_text *sql, const char *column, const char *value)
{
    if (value[0] != '\0')
        sql_printf(sql, " AND %-s=%s", column, value);
}

/* Finds a user's first LEDGER_USER_IDS_MAX orders above `after`, sorted, and appends them as a list
 * for SQL. `last_out`: the last of them when there are more, else 0. DB_DUPLICATE: the user has too
 * many. No index sorts them, since each new order would pay for it: all are read. */
static enum db_result find_user_orders(struct ledger *ledger, const char *user_id, uint64_t after,
                                       struct sql_text *list, uint64_t *last_out)
{
    size_t all = 0, count = 0;
    *last_out = 0;
    sql_begin(&ledger->sql,
              "SELECT order_id FROM(SELECT order_id FROM order_key WHERE user_id=%s LIMIT %d)k "
              "ORDER BY order_id",
              user_id, LEDGER_USER_ORDERS_MAX + 1);
    enum db_result result = ledger_read(ledger);
    for (char **row = result == DB_OK ? db_row(ledger->db) : NULL; row; row = db_row(ledger->db)) {
        uint64_t id = ledger_u64(row[0]);
        all++;
        if (id <= after || *last_out != 0)
            continue;
        if (count == LEDGER_USER_IDS_MAX)
            *last_out = after;
        else
            sql_printf(list, count++ == 0 ? "%ju" : ",%ju", after = id);
    }
    return all > LEDGER_USER_ORDERS_MAX ? DB_DUPLICATE : result;
}

/* Begins a SELECT of the orders that one call reads; bounded, because a filter that lets little
 * through must not make a call read the whole table. `end_out`: the last of them when there are
 * more, else 0. DB_NO: there are no orders. */
static enum db_result text_orders(struct ledger *ledger, const struct ledger_filter *filter,
                                  uint64_t after, uint64_t *end_out)
{
    enum db_result result = DB_OK;
    struct sql_text list = {0};
    if (filter->user_id[0] != '\0') {
        result = find_user_orders(ledger, filter->user_id, after, &list, end_out);
        sql_begin(&ledger->sql, SELECT "order_id IN(");
        sql_append(&ledger->sql, list.text, list.length);
        sql_append(&ledger->sql, ")", 1);
        bool none = result == DB_OK && list.length == 0;
        sql_free(&list);
        return none ? DB_NO : result;
    }
    *end_out = UINT64_MAX;
    if (filter->sku[0] != '\0' || filter->status[0] != '\0')
        result = ledger_piece_end(ledger, ledger_read, after, LEDGER_SCAN_MAX, end_out);
    sql_begin(&ledger->sql, SELECT "order_id>%ju AND order_id<=%ju", after, *end_out);
    *end_out = *end_out == UINT64_MAX ? 0 : *end_out;
    return result;
}

enum ledger_result ledger_orders_list(struct ledger *ledger, const struct ledger_filter *filter,
                                      uint64_t after, size_t max, struct ledger_record *orders_out,
                                      size_t *count_out, uint64_t *next_out)
{
    size_t rows = 0;
    uint64_t end = 0, last = 0;
    struct sql_text *sql = &ledger->sql;
    assert(max > 0 && max <= LEDGER_SCAN_MAX);
    *count_out = 0;
    *next_out = 0;
    enum db_result result = text_orders(ledger, filter, after, &end);
    if (result != DB_OK)
        return result == DB_NO ? LEDGER_OK : result == DB_DUPLICATE ? LEDGER_LIMIT : LEDGER_FAILED;
    text_condition(sql, "sku", filter->sku);
    text_condition(sql, "user_id", filter->user_id);
    text_condition(sql, "status", filter->status);
    sql_printf(sql, " ORDER BY order_id LIMIT %ju", (uint64_t)max);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row && rows < max; row = db_row(ledger->db), rows++) {
        last = ledger_u64(row[0]);
        *count_out += ledger_record_read(ledger, &orders_out[*count_out], row);
    }
    *next_out = rows == max ? last : end;
    return LEDGER_OK;
}
