/* Rows of orders, of their keys and of their users' quotas, written by prepared statements, which
 * spares the server the parsing.
 *
 * On MariaDB one statement of a kind, for one row, is executed for all rows of a batch (bulk.h). On
 * MySQL a statement has as many rows as it writes: one of a multiple of STEP rows and one of the
 * rest write a batch together, because a statement costs the server some kB per row, so that there
 * cannot be one for every number of rows. */
#include "sql/orders/order_insert.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sql/db/bulk.h"
#include "sql/db/db_connection.h"
#include "sql/orders/ledger_quota.h"
#include "sql/db/sql_text.h"
#include "sql/orders/user_quota.h"

enum {
    STEP = 16,
    SLOTS = STEP - 1 + LEDGER_ORDERS_MAX / STEP,
    COLUMNS_MAX = 9,
};

/* One row's values. The bindings of every statement point here. */
struct row {
    uint64_t order_id;
    char sku[IDENTIFIER_SIZE];
    char user_id[USER_ID_SIZE];
    char key[IDENTIFIER_SIZE];
    unsigned long sku_length, user_length, key_length;
    uint32_t round, qty, segment, limit;
    bulk_null no_key, no_expiry;
    MYSQL_TIME created_at, expires_at;
};

/* LASTING: orders that never expire; they do without the last column. */
enum kind { LASTING, EXPIRING, KEYS, QUOTAS, KINDS };

struct order_insert {
    uint64_t generation; /* of the connection on which the statements were prepared */
    bool bulk_allowed;
    bool bulk; /* this connection's server takes bulk bindings */
    struct bulk bulks[KINDS];
    MYSQL_STMT *statements[KINDS][SLOTS]; /* see slot_of; NULL until first used */
    struct row rows[LEDGER_ORDERS_MAX];
};

struct order_insert *order_insert_open(void)
{
    struct order_insert *insert = calloc(1, sizeof *insert);
    if (!insert)
        abort();
    insert->bulk_allowed = true;
    return insert;
}

void order_insert_allow_bulk(struct order_insert *insert, bool allowed)
{
    insert->bulk_allowed = allowed;
    insert->generation = 0;
}

static void forget_statements(struct order_insert *insert)
{
    for (size_t i = 0; i < KINDS; i++)
        bulk_close(&insert->bulks[i]);
    for (size_t i = 0; i < KINDS * SLOTS; i++) {
        MYSQL_STMT **statement = &insert->statements[i / SLOTS][i % SLOTS];
        if (*statement)
            mysql_stmt_close(*statement);
        *statement = NULL;
    }
}

void order_insert_close(struct order_insert **insert)
{
    if (*insert)
        forget_statements(*insert);
    free(*insert);
    *insert = NULL;
}

/* ---- statements ---- */

/* In the order of the columns in kinds. */
static void bind_order(struct row *row, MYSQL_BIND *bind)
{
    bind[0] = bulk_number(MYSQL_TYPE_LONGLONG, &row->order_id);
    bind[1] = bulk_text(row->sku, &row->sku_length);
    bind[2] = bulk_number(MYSQL_TYPE_LONG, &row->round);
    bind[3] = bulk_text(row->user_id, &row->user_length);
    bind[4] = bulk_number(MYSQL_TYPE_LONG, &row->qty);
    bind[5] = bulk_number(MYSQL_TYPE_LONG, &row->segment);
    bind[6] = bulk_nullable(bulk_text(row->key, &row->key_length), &row->no_key);
    bind[7] = bulk_time(&row->created_at);
}

static void bind_expiring(struct row *row, MYSQL_BIND *bind)
{
    bind_order(row, bind);
    bind[8] = bulk_nullable(bulk_time(&row->expires_at), &row->no_expiry);
}

static void bind_key(struct row *row, MYSQL_BIND *bind)
{
    bind[0] = bulk_text(row->user_id, &row->user_length);
    bind[1] = bulk_text(row->key, &row->key_length);
    bind[2] = bulk_number(MYSQL_TYPE_LONGLONG, &row->order_id);
}

static void bind_quota(struct row *row, MYSQL_BIND *bind)
{
    bind[0] = bulk_text(row->sku, &row->sku_length);
    bind[1] = bulk_number(MYSQL_TYPE_LONG, &row->round);
    bind[2] = bulk_text(row->user_id, &row->user_length);
    bind[3] = bulk_number(MYSQL_TYPE_LONG, &row->qty);
    bind[4] = bulk_number(MYSQL_TYPE_LONG, &row->limit);
    bind[5] = bulk_number(MYSQL_TYPE_LONGLONG, &row->order_id);
}

#define ORDERS_INSERT                                                                              \
    "INSERT INTO orders(order_id,sku,round,user_id,qty,segment,idempotency_key,created_at"

/* The primary key of order_key refuses the second order of a user and key, whoever writes it. */
static const struct {
    const char *insert;
    const char *row;
    size_t columns;
    void (*bind)(struct row *row, MYSQL_BIND *bind);
} kinds[KINDS] = {
    [LASTING] = {ORDERS_INSERT ")VALUES", "(?,?,?,?,?,?,?,?)", 8, bind_order},
    [EXPIRING] = {ORDERS_INSERT ",expires_at)VALUES", "(?,?,?,?,?,?,?,?,?)", 9, bind_expiring},
    [KEYS] = {"INSERT INTO order_key(user_id,idempotency_key,order_id)VALUES", "(?,?,?)", 3,
              bind_key},
    [QUOTAS] = {USER_QUOTA_INSERT, "(?,?,?,?,?,?)", 6, bind_quota},
};

static void text_of(struct sql_text *sql, enum kind kind, size_t rows)
{
    sql_append(sql, kinds[kind].insert, strlen(kinds[kind].insert));
    for (size_t i = 0; i < rows; i++)
        sql_printf(sql, "%s%s", i == 0 ? "" : ",", kinds[kind].row);
    if (kind == QUOTAS)
        sql_printf(sql, USER_QUOTA_ADD, LEDGER_QUOTA_ORDERS_MAX);
    sql_append(sql, "", 1);
}

static enum db_result prepare_failed(struct db *db, MYSQL_STMT *statement)
{
    enum db_result result =
        db_statement_error(db, mysql_stmt_errno(statement), mysql_stmt_error(statement));
    mysql_stmt_close(statement);
    return result;
}

static enum db_result prepare(struct order_insert *insert, struct db *db, size_t rows,
                              enum kind kind, MYSQL_STMT **statement_out)
{
    struct sql_text sql = {0};
    size_t columns = kinds[kind].columns;
    MYSQL_BIND *binds = calloc(rows * columns, sizeof *binds);
    MYSQL_STMT *statement = mysql_stmt_init(db_handle(db));
    if (!binds || !statement)
        abort();
    for (size_t i = 0; i < rows; i++)
        kinds[kind].bind(&insert->rows[i], &binds[i * columns]);
    text_of(&sql, kind, rows);
    /* Bound once and for all: the rows stay where they are, and only their contents change. */
    bool failed = mysql_stmt_prepare(statement, sql.text, (unsigned long)strlen(sql.text)) != 0 ||
                  mysql_stmt_bind_param(statement, binds) != 0; /* which copies the bindings */
    sql_free(&sql);
    free(binds);
    if (failed)
        return prepare_failed(db, statement);
    *statement_out = statement;
    return DB_OK;
}

/* ---- rows ---- */

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
    char own[IDENTIFIER_SIZE]; /* in order_key, and outside the alphabet of clients' keys */
    const char *key = order->key ? order->key : "";
    row->order_id = order->order_id;
    row->round = order->round;
    row->qty = order->qty;
    row->limit = order->limit;
    row->segment = order->segment;
    row->no_key = key[0] == '\0';
    if (row->no_key)
        snprintf(own, sizeof own, "#%llu", (unsigned long long)order->order_id);
    set_text(row->sku, sizeof row->sku, &row->sku_length, order->sku);
    set_text(row->user_id, sizeof row->user_id, &row->user_length, order->user_id);
    set_text(row->key, sizeof row->key, &row->key_length, row->no_key ? own : key);
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

static void fill_rows(struct order_insert *insert, const struct ledger_order *const *orders,
                      size_t count)
{
    struct moment created = {.ms = -1}, expires = {.ms = -1};
    for (size_t i = 0; i < count; i++) {
        struct row *row = &insert->rows[i];
        fill_row(row, orders[i]);
        row->created_at = time_at(&created, orders[i]->created_ms);
        row->no_expiry = orders[i]->expires_ms == 0;
        if (!row->no_expiry)
            row->expires_at = time_at(&expires, orders[i]->expires_ms);
    }
}

/* ---- writing ---- */

/* The slot of the statement of `count` rows; the statements of fewer than STEP rows come first. */
static size_t slot_of(size_t count)
{
    assert(count > 0 && count <= LEDGER_ORDERS_MAX && (count < STEP || count % STEP == 0));
    return count < STEP ? count - 1 : STEP - 2 + count / STEP;
}

/* How many of the rows the next statement takes: all whole steps, or the rest. */
static size_t part_of(size_t count)
{
    return count < STEP ? count : count / STEP * STEP;
}

/* Writes the first `count` rows by a statement of that many. */
static enum db_result run_multi(struct order_insert *insert, struct db *db, enum kind kind,
                                size_t count)
{
    MYSQL_STMT **statement = &insert->statements[kind][slot_of(count)];
    db->doing = kinds[kind].insert;
    db->doing_length = strlen(db->doing);
    enum db_result result = *statement ? DB_OK : prepare(insert, db, count, kind, statement);
    if (result != DB_OK)
        return result;
    if (mysql_stmt_execute(*statement) == 0)
        return DB_OK;
    return db_statement_error(db, mysql_stmt_errno(*statement), mysql_stmt_error(*statement));
}

static enum db_result run_bulk(struct order_insert *insert, struct db *db, enum kind kind,
                               size_t count)
{
    struct sql_text sql = {0};
    MYSQL_BIND binds[COLUMNS_MAX];
    uint64_t affected = 0;
    kinds[kind].bind(&insert->rows[0], binds);
    text_of(&sql, kind, 1);
    enum db_result result = bulk_execute(&insert->bulks[kind], db, sql.text, binds,
                                         sizeof insert->rows[0], count, &affected);
    sql_free(&sql);
    return result;
}

/* A new connection knows nothing of what was prepared on the one before it. */
static void follow_connection(struct order_insert *insert, struct db *db)
{
    if (insert->generation == db_generation(db))
        return;
    forget_statements(insert);
    insert->generation = db_generation(db);
    insert->bulk = insert->bulk_allowed && bulk_supported(db);
}

bool order_insert_has_bulk(struct order_insert *insert, struct db *db)
{
    follow_connection(insert, db);
    return insert->bulk;
}

static enum db_result run(struct order_insert *insert, struct db *db, enum kind kind,
                          const struct ledger_order *const *orders, size_t count)
{
    enum db_result result = DB_OK;
    assert(count <= LEDGER_ORDERS_MAX);
    if (count == 0)
        return DB_OK;
    follow_connection(insert, db);
    for (size_t done = 0, part; done < count && result == DB_OK; done += part) {
        part = insert->bulk ? count : part_of(count - done);
        fill_rows(insert, orders + done, part);
        result =
            insert->bulk ? run_bulk(insert, db, kind, part) : run_multi(insert, db, kind, part);
    }
    return result;
}

enum db_result order_insert_run(struct order_insert *insert, struct db *db,
                                const struct ledger_order *const *orders, size_t count)
{
    enum kind kind = LASTING;
    for (size_t i = 0; i < count && kind == LASTING; i++)
        kind = orders[i]->expires_ms != 0 ? EXPIRING : LASTING;
    return run(insert, db, kind, orders, count);
}

enum db_result order_insert_keys(struct order_insert *insert, struct db *db,
                                 const struct ledger_order *const *orders, size_t count)
{
    return run(insert, db, KEYS, orders, count);
}

enum db_result order_insert_quotas(struct order_insert *insert, struct db *db,
                                   const struct ledger_order *const *orders, size_t count)
{
    return run(insert, db, QUOTAS, orders, count);
}
