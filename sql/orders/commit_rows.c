/* Writes the rows of a commit: orders, their keys, their users' quotas, and stock updates.
 *
 * On MariaDB one prepared statement of a kind, for one row, is executed for all rows of a batch
 * (bulk.h), which spares the server the parsing. A server without bulk bindings, such as MySQL,
 * gets one text of many rows. */
#include "sql/orders/commit_rows.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/text.h"
#include "sql/db/bulk.h"
#include "sql/db/sql_text.h"
#include "sql/ledger/ledger_query.h"
#include "sql/orders/user_quota.h"

enum { COLUMNS_MAX = 10 };

struct text {
    bulk_null none; /* SQL NULL */
    unsigned long length;
    char bytes[USER_ID_SIZE];
};

struct moment {
    bulk_null none;
    int64_t ms; /* UTC, since 1970 */
    MYSQL_TIME time;
};

/* One row's values, for the columns of every statement. */
struct row {
    uint64_t order_id, fence, settled;
    struct text sku, user_id, key, payment_ref;
    uint32_t round, qty, segment, limit, grace_s, settings_version, state, outcome;
    struct moment created_at, expires_at;
};

enum { STOCK = COMMIT_QUOTAS + 1, PAYMENTS, KINDS }; /* further kinds */

/* The prepared statements of one ledger and the rows that they write. */
struct commit_rows {
    struct bulk bulks[KINDS];
    struct sql_text sql;
    struct row rows[LEDGER_SEGMENTS_MAX]; /* of one kind at a time */
};

static void commit_rows_close(struct commit_rows **rows)
{
    for (size_t i = 0; *rows && i < KINDS; i++)
        bulk_close(&(*rows)->bulks[i]);
    if (*rows)
        sql_free(&(*rows)->sql);
    free(*rows);
    *rows = NULL;
}

/* Those of the ledger, which closes them itself. */
static struct commit_rows *rows_of(struct ledger *ledger)
{
    if (!ledger->rows) {
        ledger->rows = memory_must(calloc(1, sizeof *ledger->rows));
        ledger->rows_close = commit_rows_close;
    }
    return ledger->rows;
}

/* ---- statements ---- */

#define ORDERS_INSERT                                                                              \
    "INSERT INTO orders(order_id,sku,round,user_id,qty,segment,idempotency_key,created_at"

/* Bulk bindings of an UPDATE would execute as many statements; an INSERT opens its table once. The
 * row always exists, so nothing is inserted: a missing row counts as refused, and is rolled back. A
 * changed row counts twice, an unchanged one not at all. The guard must not change between the two
 * assignments, so `fence` comes last; the table itself checks that the segment has the units. */
#define GUARD                                                                                      \
    "round=VALUES(round)AND settings_version=VALUES(settings_version)"                             \
    "AND fence=? AND fence<VALUES(fence)"

/* A row's value that replaces a placeholder. */
struct column {
    enum { NUMBER, LONG_NUMBER, TEXT, MOMENT } type;
    size_t offset;
};

#define COLUMN(type, name)                                                                         \
    {                                                                                              \
        type, offsetof(struct row, name)                                                           \
    }
#define ORDERS_COLUMNS                                                                             \
    COLUMN(LONG_NUMBER, order_id), COLUMN(TEXT, sku), COLUMN(NUMBER, round),                       \
        COLUMN(TEXT, user_id), COLUMN(NUMBER, qty), COLUMN(NUMBER, segment), COLUMN(TEXT, key),    \
        COLUMN(MOMENT, created_at)

/* The primary key of order_key refuses a second order of a user and key, from any process. A stock
 * update would insert a row with as much capacity as sold; otherwise the table would refuse it
 * before it finds the existing row. */
static const struct {
    const char *insert, *tail; /* before and behind the rows */
    size_t count;
    struct column columns[COLUMNS_MAX];
} kinds[] = {
    [COMMIT_LASTING] = {ORDERS_INSERT ")VALUES", "", 8, {ORDERS_COLUMNS}},
    [COMMIT_EXPIRING] = {ORDERS_INSERT ",expires_at)VALUES",
                         "",
                         9,
                         {ORDERS_COLUMNS, COLUMN(MOMENT, expires_at)}},
    [COMMIT_GRACE] = {ORDERS_INSERT ",expires_at,grace_s)VALUES",
                      "",
                      10,
                      {ORDERS_COLUMNS, COLUMN(MOMENT, expires_at), COLUMN(NUMBER, grace_s)}},
    [COMMIT_KEYS] = {"INSERT INTO order_key(user_id,idempotency_key,order_id)VALUES",
                     "",
                     3,
                     {COLUMN(TEXT, user_id), COLUMN(TEXT, key), COLUMN(LONG_NUMBER, order_id)}},
    [COMMIT_QUOTAS] = {USER_QUOTA_INSERT,
                       USER_QUOTA_ADD,
                       6,
                       {COLUMN(TEXT, sku), COLUMN(NUMBER, round), COLUMN(TEXT, user_id),
                        COLUMN(NUMBER, qty), COLUMN(NUMBER, limit), COLUMN(LONG_NUMBER, order_id)}},
    [STOCK] = {"INSERT INTO stock_segment"
               "(sku,segment,round,capacity,sold,fence,settings_version)VALUES",
               "ON DUPLICATE KEY UPDATE sold=IF(" GUARD ",sold+VALUES(sold),sold),"
               "fence=IF(" GUARD ",VALUES(fence),fence)",
               7,
               {COLUMN(TEXT, sku), COLUMN(NUMBER, segment), COLUMN(NUMBER, round),
                COLUMN(NUMBER, qty), COLUMN(NUMBER, qty), COLUMN(LONG_NUMBER, fence),
                COLUMN(NUMBER, settings_version), COLUMN(LONG_NUMBER, settled),
                COLUMN(LONG_NUMBER, settled)}},
    [PAYMENTS] = {"INSERT INTO payment(order_id,payment_ref,state,outcome,told_at)VALUES",
                  "",
                  4,
                  {COLUMN(LONG_NUMBER, order_id), COLUMN(TEXT, payment_ref), COLUMN(NUMBER, state),
                   COLUMN(NUMBER, outcome)}},
};

/* Payments are told when the server writes them. */
static const char *row_end(unsigned kind)
{
    return kind == PAYMENTS ? ",UTC_TIMESTAMP(3))" : ")";
}

/* ---- by bulk bindings ---- */

bool commit_rows_bulk(const struct ledger *ledger)
{
    return !ledger->without_bulk && bulk_supported(ledger->db);
}

static MYSQL_BIND bind_column(const struct column *column, void *value)
{
    struct text *text = value;
    struct moment *moment = value;
    switch (column->type) {
    case NUMBER:
        return bulk_bind(MYSQL_TYPE_LONG, value, NULL, NULL);
    case LONG_NUMBER:
        return bulk_bind(MYSQL_TYPE_LONGLONG, value, NULL, NULL);
    case TEXT: /* sent as bytes: the server stores them as they are, without converting them */
        return bulk_bind(MYSQL_TYPE_BLOB, text->bytes, &text->length, &text->none);
    default:
        return bulk_bind(MYSQL_TYPE_DATETIME, &moment->time, NULL, &moment->none);
    }
}

static enum db_result run_bulk(struct commit_rows *rows, struct db *db, unsigned kind, size_t count,
                               uint64_t *affected_out)
{
    MYSQL_BIND binds[COLUMNS_MAX];
    sql_begin(&rows->sql, "%-s(?", kinds[kind].insert);
    for (size_t i = 1; i < kinds[kind].count; i++)
        sql_append(&rows->sql, ",?", 2);
    sql_printf(&rows->sql, "%-s%-s", row_end(kind), kinds[kind].tail);
    sql_append(&rows->sql, "", 1);
    for (size_t i = 0; i < COLUMNS_MAX; i++) {
        const struct column *column = &kinds[kind].columns[i];
        binds[i] = bind_column(column, (char *)&rows->rows[0] + column->offset);
    }
    return bulk_execute(&rows->bulks[kind], db, rows->sql.text, binds, sizeof rows->rows[0], count,
                        affected_out);
}

/* ---- as text ---- */

static void text_column(struct sql_text *sql, const struct column *column, const void *value)
{
    const struct text *text = value;
    const struct moment *moment = value;
    switch (column->type) {
    case NUMBER:
        sql_printf(sql, "%u", *(const uint32_t *)value);
        break;
    case LONG_NUMBER:
        sql_printf(sql, "%ju", *(const uint64_t *)value);
        break;
    case TEXT:
        sql_printf(sql, "%s", text->none ? NULL : text->bytes);
        break;
    default:
        ledger_time_text(sql, moment->ms);
    }
}

static enum db_result run_text(struct commit_rows *rows, struct db *db, unsigned kind, size_t count)
{
    struct sql_text *sql = &rows->sql;
    sql_begin(sql, "%-s", kinds[kind].insert);
    for (size_t i = 0; i < count; i++) {
        const char *lead = i == 0 ? "(" : ",(";
        for (size_t c = 0; c < kinds[kind].count; c++) {
            const struct column *column = &kinds[kind].columns[c];
            sql_printf(sql, "%-s", c == 0 ? lead : ",");
            text_column(sql, column, (const char *)&rows->rows[i] + column->offset);
        }
        sql_printf(sql, "%-s", row_end(kind));
    }
    sql_printf(sql, "%-s", kinds[kind].tail);
    return db_query(db, sql->text, sql->length);
}

static enum db_result run(struct ledger *ledger, unsigned kind, size_t count)
{
    uint64_t affected = 0;
    return commit_rows_bulk(ledger) ? run_bulk(ledger->rows, ledger->db, kind, count, &affected)
                                    : run_text(ledger->rows, ledger->db, kind, count);
}

/* ---- rows of orders ---- */

static void set_text(struct text *out, const char *text)
{
    size_t length = strlen(text);
    assert(length < sizeof out->bytes);
    memcpy(out->bytes, text, length + 1);
    out->length = (unsigned long)length;
    out->none = 0;
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

/* 0 sets NULL. `like`: the moment of the row before, reused when it is equal, as it mostly is. */
static void set_moment(struct moment *out, int64_t ms, const struct moment *like)
{
    out->none = ms == 0;
    out->ms = ms;
    if (!out->none)
        out->time = like && like->ms == ms ? like->time : utc_time(ms);
}

static void fill_row(struct row *row, const struct ledger_order *order, enum commit_rows_kind kind,
                     const struct row *before)
{
    row->order_id = order->order_id;
    row->round = order->round;
    row->qty = order->qty;
    row->limit = order->limit;
    row->segment = order->segment;
    row->grace_s = order->grace_s;
    set_text(&row->sku, order->sku);
    set_text(&row->user_id, order->user_id);
    bool keyed = order->key && order->key[0] != '\0';
    set_text(&row->key, keyed ? order->key : "");
    row->key.none = !keyed;
    if (kind == COMMIT_KEYS && !keyed) { /* outside the alphabet of clients' keys */
        row->key.bytes[0] = '#';
        row->key.length =
            (unsigned long)(decimal_put(row->key.bytes + 1, order->order_id) - row->key.bytes);
        row->key.bytes[row->key.length] = '\0';
        row->key.none = 0;
    }
    set_moment(&row->created_at, order->created_ms, before ? &before->created_at : NULL);
    set_moment(&row->expires_at, order->expires_ms, before ? &before->expires_at : NULL);
}

enum db_result commit_rows_insert(struct ledger *ledger, enum commit_rows_kind kind,
                                  const struct ledger_order *const *orders, size_t count)
{
    struct commit_rows *rows = rows_of(ledger);
    static_assert(LEDGER_ORDERS_MAX <= (int)LEDGER_SEGMENTS_MAX, "rows has room for either");
    assert(count <= LEDGER_ORDERS_MAX);
    if (count == 0)
        return DB_OK;
    for (size_t i = 0; i < count; i++)
        fill_row(&rows->rows[i], orders[i], kind, i > 0 ? &rows->rows[i - 1] : NULL);
    return run(ledger, kind, count);
}

/* ---- payments ---- */

enum db_result commit_rows_payments(struct ledger *ledger, const struct commit_payment *payments,
                                    size_t count)
{
    struct commit_rows *rows = rows_of(ledger);
    assert(count <= LEDGER_ORDERS_MAX);
    if (count == 0)
        return DB_OK;
    for (size_t i = 0; i < count; i++) {
        struct row *row = &rows->rows[i];
        row->order_id = payments[i].order_id;
        row->state = payments[i].state;
        row->outcome = payments[i].outcome;
        set_text(&row->payment_ref, payments[i].ref);
    }
    return run(ledger, PAYMENTS, count);
}

/* ---- stock updates ---- */

/* A refusal by the table counts like one by the guard. */
enum db_result commit_rows_stock(struct ledger *ledger, const struct ledger_stock_update *updates,
                                 size_t count, bool *made_out)
{
    struct commit_rows *rows = rows_of(ledger);
    uint64_t affected = 0;
    assert(count > 0 && count <= LEDGER_SEGMENTS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct row *row = &rows->rows[i];
        set_text(&row->sku, updates[i].sku);
        row->segment = updates[i].segment;
        row->round = updates[i].round;
        row->qty = updates[i].units;
        row->settings_version = updates[i].settings_version;
        row->fence = updates[i].fence;
        row->settled = updates[i].settled;
    }
    enum db_result result = run_bulk(rows, ledger->db, STOCK, count, &affected);
    *made_out = result == DB_OK && affected == 2 * count;
    return result == DB_CHECK ? DB_OK : result;
}
