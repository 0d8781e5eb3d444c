/* The rows that a commit writes: orders, their keys, their users' quotas, and stock updates.
 *
 * On MariaDB one prepared statement of a kind, for one row, is executed for all rows of a batch
 * (bulk.h), which spares the server the parsing. A server without bulk bindings, as MySQL is, gets
 * one text of many rows. */
#include "sql/orders/commit_rows.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sql/db/bulk.h"
#include "sql/db/sql_text.h"
#include "sql/ledger/ledger.h"
#include "sql/orders/orders.h"
#include "sql/orders/user_quota.h"

enum { COLUMNS_MAX = 9 };

/* One row's values. The bindings of every statement of orders point here. */
struct row {
    uint64_t order_id;
    char sku[IDENTIFIER_SIZE];
    char user_id[USER_ID_SIZE];
    char key[IDENTIFIER_SIZE]; /* in order_key; in orders, too, unless there is no_key */
    unsigned long sku_length, user_length, key_length;
    uint32_t round, qty, segment, limit;
    bulk_null no_key, no_expiry;
    MYSQL_TIME created_at, expires_at;
};

struct stock_row {
    char sku[IDENTIFIER_SIZE];
    unsigned long sku_length;
    uint32_t segment, round, units, settings_version;
    uint64_t fence, settled;
};

/* LASTING: orders that never expire; they do without the last column. */
enum kind { LASTING, EXPIRING, KEYS, QUOTAS, STOCK, KINDS };

struct commit_rows {
    struct bulk bulks[KINDS];
    struct sql_text sql;
    struct row rows[LEDGER_ORDERS_MAX];
    struct stock_row stock[LEDGER_SEGMENTS_MAX];
};

struct commit_rows *commit_rows_open(void)
{
    struct commit_rows *rows = calloc(1, sizeof *rows);
    if (!rows)
        abort();
    return rows;
}

void commit_rows_close(struct commit_rows **rows)
{
    for (size_t i = 0; *rows && i < KINDS; i++)
        bulk_close(&(*rows)->bulks[i]);
    if (*rows)
        sql_free(&(*rows)->sql);
    free(*rows);
    *rows = NULL;
}

/* ---- statements ---- */

#define ORDERS_INSERT                                                                              \
    "INSERT INTO orders(order_id,sku,round,user_id,qty,segment,idempotency_key,created_at"

/* The primary key of order_key refuses the second order of a user and key, whoever writes it. */
static const struct {
    const char *insert, *row;
} kinds[] = {
    [LASTING] = {ORDERS_INSERT ")VALUES", "(?,?,?,?,?,?,?,?)"},
    [EXPIRING] = {ORDERS_INSERT ",expires_at)VALUES", "(?,?,?,?,?,?,?,?,?)"},
    [KEYS] = {"INSERT INTO order_key(user_id,idempotency_key,order_id)VALUES", "(?,?,?)"},
    [QUOTAS] = {USER_QUOTA_INSERT, "(?,?,?,?,?,?)"},
};

/* Bulk bindings of an UPDATE would be as many statements, while an INSERT opens its table once. The
 * row is always there, so that nothing is inserted: a missing one counts as refused, and is rolled
 * back. A changed row counts twice, an unchanged one not at all. The guard must not change between
 * the two assignments, so `fence` is the last; that the segment has the units is checked by the
 * table itself. */
#define GUARD                                                                                      \
    "round=VALUES(round)AND settings_version=VALUES(settings_version)"                             \
    "AND fence=? AND fence<VALUES(fence)"
static const char stock_update[] =
    "INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence,settings_version)"
    "VALUES(?,?,?,?,?,?,?)ON DUPLICATE KEY UPDATE "
    "sold=IF(" GUARD ",sold+VALUES(sold),sold),fence=IF(" GUARD ",VALUES(fence),fence)";

/* ---- by bulk bindings ---- */

/* In the order of the columns in kinds. */
static void bind_row(enum kind kind, struct row *row, MYSQL_BIND bind[COLUMNS_MAX])
{
    switch (kind) {
    case KEYS:
        bind[0] = bulk_text(row->user_id, &row->user_length);
        bind[1] = bulk_text(row->key, &row->key_length);
        bind[2] = bulk_number(MYSQL_TYPE_LONGLONG, &row->order_id);
        break;
    case QUOTAS:
        bind[0] = bulk_text(row->sku, &row->sku_length);
        bind[1] = bulk_number(MYSQL_TYPE_LONG, &row->round);
        bind[2] = bulk_text(row->user_id, &row->user_length);
        bind[3] = bulk_number(MYSQL_TYPE_LONG, &row->qty);
        bind[4] = bulk_number(MYSQL_TYPE_LONG, &row->limit);
        bind[5] = bulk_number(MYSQL_TYPE_LONGLONG, &row->order_id);
        break;
    default:
        bind[0] = bulk_number(MYSQL_TYPE_LONGLONG, &row->order_id);
        bind[1] = bulk_text(row->sku, &row->sku_length);
        bind[2] = bulk_number(MYSQL_TYPE_LONG, &row->round);
        bind[3] = bulk_text(row->user_id, &row->user_length);
        bind[4] = bulk_number(MYSQL_TYPE_LONG, &row->qty);
        bind[5] = bulk_number(MYSQL_TYPE_LONG, &row->segment);
        bind[6] = bulk_nullable(bulk_text(row->key, &row->key_length), &row->no_key);
        bind[7] = bulk_time(&row->created_at);
        bind[8] = bulk_nullable(bulk_time(&row->expires_at), &row->no_expiry);
    }
}

static void set_text(char *out, size_t size, unsigned long *length_out, const char *text)
{
    size_t length = strlen(text);
    assert(length < size);
    memcpy(out, text, length);
    *length_out = (unsigned long)length;
}

static MYSQL_TIME utc_time(int64_t ms)
{
    struct tm utc;
    time_t seconds = (time_t)(ms / 1000);
    gmtime_r(&seconds, &utc);
    return (MYSQL_TIME){
        .year = (unsigned)utc.tm_year + 1900,
        .month = (unsigned)utc.tm_mon + 1,
        .day = (unsigned)utc.tm_mday,
        .hour = (unsigned)utc.tm_hour,
        .minute = (unsigned)utc.tm_min,
        .second = (unsigned)utc.tm_sec,
        .second_part = (unsigned long)(ms % 1000) * 1000,
        .time_type = MYSQL_TIMESTAMP_DATETIME,
    };
}

static void fill_row(struct row *row, const struct ledger_order *order)
{
    char own[IDENTIFIER_SIZE]; /* outside the alphabet of clients' keys */
    row->order_id = order->order_id;
    row->round = order->round;
    row->qty = order->qty;
    row->limit = order->limit;
    row->segment = order->segment;
    row->no_key = !order->key || order->key[0] == '\0';
    if (row->no_key)
        snprintf(own, sizeof own, "#%llu", (unsigned long long)order->order_id);
    set_text(row->sku, sizeof row->sku, &row->sku_length, order->sku);
    set_text(row->user_id, sizeof row->user_id, &row->user_length, order->user_id);
    set_text(row->key, sizeof row->key, &row->key_length, row->no_key ? own : order->key);
}

/* The last moment converted; the next order mostly has the same. */
struct moment {
    int64_t ms;
    MYSQL_TIME time;
};

static MYSQL_TIME time_at(struct moment *last, int64_t ms)
{
    if (last->ms != ms)
        *last = (struct moment){ms, utc_time(ms)};
    return last->time;
}

static enum db_result run_bulk(struct commit_rows *rows, struct db *db, enum kind kind,
                               const struct ledger_order *const *orders, size_t count)
{
    struct moment created = {.ms = -1}, expires = {.ms = -1};
    MYSQL_BIND binds[COLUMNS_MAX];
    uint64_t affected = 0;
    for (size_t i = 0; i < count; i++) {
        struct row *row = &rows->rows[i];
        fill_row(row, orders[i]);
        row->created_at = time_at(&created, orders[i]->created_ms);
        row->no_expiry = orders[i]->expires_ms == 0;
        if (!row->no_expiry)
            row->expires_at = time_at(&expires, orders[i]->expires_ms);
    }
    bind_row(kind, &rows->rows[0], binds);
    sql_printf(&rows->sql, "%s", kinds[kind].row);
    if (kind == QUOTAS)
        sql_printf(&rows->sql, USER_QUOTA_ADD, LEDGER_QUOTA_ORDERS_MAX);
    sql_append(&rows->sql, "", 1);
    return bulk_execute(&rows->bulks[kind], db, rows->sql.text, binds, sizeof rows->rows[0], count,
                        &affected);
}

/* ---- as text ---- */

static void text_number(struct sql_text *sql, uint64_t number)
{
    sql_number(sql, number);
    sql_append(sql, ",", 1);
}

static void text_order(struct sql_text *sql, const struct ledger_order *order, bool expires)
{
    text_number(sql, order->order_id);
    sql_identifier(sql, order->sku);
    sql_append(sql, ",", 1);
    text_number(sql, order->round);
    sql_user_id(sql, order->user_id);
    sql_append(sql, ",", 1);
    text_number(sql, order->qty);
    text_number(sql, order->segment);
    if (order->key && order->key[0] != '\0')
        sql_identifier(sql, order->key);
    else
        sql_append(sql, "NULL", 4);
    sql_append(sql, ",", 1);
    ledger_time_text(sql, order->created_ms);
    if (expires) {
        sql_append(sql, ",", 1);
        ledger_time_text(sql, order->expires_ms);
    }
}

static void text_key(struct sql_text *sql, const struct ledger_order *order)
{
    sql_user_id(sql, order->user_id);
    sql_append(sql, ",", 1);
    if (order->key && order->key[0] != '\0')
        sql_identifier(sql, order->key);
    else
        sql_printf(sql, "'#%llu'", (unsigned long long)order->order_id);
    sql_printf(sql, ",%llu", (unsigned long long)order->order_id);
}

static void text_quota(struct sql_text *sql, const struct ledger_order *order)
{
    sql_identifier(sql, order->sku);
    sql_append(sql, ",", 1);
    text_number(sql, order->round);
    sql_user_id(sql, order->user_id);
    sql_printf(sql, ",%u,%u,%llu", order->qty, order->limit, (unsigned long long)order->order_id);
}

static enum db_result run_text(struct commit_rows *rows, struct db *db, enum kind kind,
                               const struct ledger_order *const *orders, size_t count)
{
    struct sql_text *sql = &rows->sql;
    for (size_t i = 0; i < count; i++) {
        sql_append(sql, i == 0 ? "(" : ",(", i == 0 ? 1 : 2);
        if (kind == KEYS)
            text_key(sql, orders[i]);
        else if (kind == QUOTAS)
            text_quota(sql, orders[i]);
        else
            text_order(sql, orders[i], kind == EXPIRING);
        sql_append(sql, ")", 1);
    }
    if (kind == QUOTAS)
        sql_printf(sql, USER_QUOTA_ADD, LEDGER_QUOTA_ORDERS_MAX);
    return db_query(db, sql->text, sql->length);
}

/* ---- */

static bool any_expires(const struct ledger_order *const *orders, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (orders[i]->expires_ms != 0)
            return true;
    return false;
}

enum db_result commit_rows_insert(struct commit_rows *rows, struct db *db, bool bulk,
                                  enum commit_rows_kind wanted,
                                  const struct ledger_order *const *orders, size_t count)
{
    enum kind kind = wanted == COMMIT_KEYS        ? KEYS
                     : wanted == COMMIT_QUOTAS    ? QUOTAS
                     : any_expires(orders, count) ? EXPIRING
                                                  : LASTING;
    assert(count <= LEDGER_ORDERS_MAX);
    if (count == 0)
        return DB_OK;
    sql_begin(&rows->sql, "%s", kinds[kind].insert);
    return bulk ? run_bulk(rows, db, kind, orders, count) : run_text(rows, db, kind, orders, count);
}

/* ---- stock updates ---- */

static void fill_stock(struct stock_row *row, const struct ledger_stock_update *update)
{
    set_text(row->sku, sizeof row->sku, &row->sku_length, update->sku);
    row->segment = update->segment;
    row->round = update->round;
    row->units = update->units;
    row->settings_version = update->settings_version;
    row->fence = update->fence;
    row->settled = update->settled;
}

/* In the order of the placeholders in stock_update. The row that would be inserted has as much
 * capacity as is sold, or the table would refuse it before it sees that the row is there. */
static void bind_stock(struct stock_row *row, MYSQL_BIND bind[COLUMNS_MAX])
{
    bind[0] = bulk_text(row->sku, &row->sku_length);
    bind[1] = bulk_number(MYSQL_TYPE_LONG, &row->segment);
    bind[2] = bulk_number(MYSQL_TYPE_LONG, &row->round);
    bind[3] = bind[4] = bulk_number(MYSQL_TYPE_LONG, &row->units);
    bind[5] = bulk_number(MYSQL_TYPE_LONGLONG, &row->fence);
    bind[6] = bulk_number(MYSQL_TYPE_LONG, &row->settings_version);
    bind[7] = bind[8] = bulk_number(MYSQL_TYPE_LONGLONG, &row->settled);
}

/* A refusal by the table itself tells no more than one by the guard. */
enum db_result commit_rows_stock(struct commit_rows *rows, struct db *db,
                                 const struct ledger_stock_update *updates, size_t count,
                                 bool *made_out)
{
    MYSQL_BIND binds[COLUMNS_MAX];
    uint64_t affected = 0;
    assert(count > 0 && count <= LEDGER_SEGMENTS_MAX);
    for (size_t i = 0; i < count; i++)
        fill_stock(&rows->stock[i], &updates[i]);
    bind_stock(&rows->stock[0], binds);
    enum db_result result = bulk_execute(&rows->bulks[STOCK], db, stock_update, binds,
                                         sizeof rows->stock[0], count, &affected);
    *made_out = result == DB_OK && affected == 2 * count;
    return result == DB_CHECK ? DB_OK : result;
}
