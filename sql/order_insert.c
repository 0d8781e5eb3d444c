/* Orders and their users' quotas, written by prepared statements of many rows, which spares the
 * server the parsing: about 1.5 us of its 4 us per order. */
#include "sql/order_insert.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sql/db_connection.h"
#include "sql/ledger_quota.h"
#include "sql/sql_text.h"
#include "sql/user_quota.h"

/* A prepared statement costs the server some kB per row, so there cannot be one for every number of
 * rows: one of a multiple of STEP rows and one of the rest write a batch together. */
enum {
    STEP = 16,
    SLOTS = STEP - 1 + LEDGER_ORDERS_MAX / STEP,
    COLUMNS = 9,
    QUOTA_COLUMNS = 6,
};

/* my_bool in MariaDB's header, bool in MySQL's. */
typedef __typeof__(*((MYSQL_BIND *)0)->is_null) null_flag;

/* One row's values. The bindings of every statement point here. */
struct row {
    uint64_t order_id;
    char sku[IDENTIFIER_SIZE];
    char user_id[IDENTIFIER_SIZE];
    char key[IDENTIFIER_SIZE];
    unsigned long sku_length, user_length, key_length;
    uint32_t round, qty, segment, limit;
    null_flag no_segment, no_key, no_expiry;
    MYSQL_TIME created_at, expires_at;
};

/* LASTING: orders that never expire, most of all; they do without the last column. QUOTAS: not the
 * orders but the units of their users. */
enum kind { LASTING, EXPIRING, QUOTAS, KINDS };

struct order_insert {
    uint64_t generation; /* of the connection on which the statements were prepared */
    MYSQL_STMT *statements[KINDS][SLOTS]; /* see slot_of; NULL until first used */
    struct row rows[LEDGER_ORDERS_MAX];
};

struct order_insert *order_insert_open(void)
{
    struct order_insert *insert = calloc(1, sizeof *insert);
    if (!insert)
        abort();
    return insert;
}

static void forget_statements(struct order_insert *insert)
{
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

static MYSQL_BIND bind_number(enum enum_field_types type, void *value)
{
    MYSQL_BIND bind = {.buffer_type = type, .buffer = value, .is_unsigned = 1};
    return bind;
}

static MYSQL_BIND bind_text(char *text, unsigned long *length)
{
    MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_STRING, .buffer = text, .length = length};
    return bind;
}

/* In the order of the columns in orders_text. */
static void bind_row(struct row *row, MYSQL_BIND *bind)
{
    bind[0] = bind_number(MYSQL_TYPE_LONGLONG, &row->order_id);
    bind[1] = bind_text(row->sku, &row->sku_length);
    bind[2] = bind_number(MYSQL_TYPE_LONG, &row->round);
    bind[3] = bind_text(row->user_id, &row->user_length);
    bind[4] = bind_number(MYSQL_TYPE_LONG, &row->qty);
    bind[5] = bind_number(MYSQL_TYPE_LONG, &row->segment);
    bind[5].is_null = &row->no_segment;
    bind[6] = bind_text(row->key, &row->key_length);
    bind[6].is_null = &row->no_key;
    bind[7] = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_DATETIME, .buffer = &row->created_at};
    bind[8] = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_DATETIME, .buffer = &row->expires_at};
    bind[8].is_null = &row->no_expiry;
}

/* In the order of the columns in USER_QUOTA_INSERT. */
static void bind_quota(struct row *row, MYSQL_BIND *bind)
{
    bind[0] = bind_text(row->sku, &row->sku_length);
    bind[1] = bind_number(MYSQL_TYPE_LONG, &row->round);
    bind[2] = bind_text(row->user_id, &row->user_length);
    bind[3] = bind_number(MYSQL_TYPE_LONG, &row->qty);
    bind[4] = bind_number(MYSQL_TYPE_LONG, &row->limit);
    bind[5] = bind_number(MYSQL_TYPE_LONGLONG, &row->order_id);
}

static void quotas_text(struct sql_text *sql, size_t rows)
{
    sql_printf(sql, USER_QUOTA_INSERT);
    for (size_t i = 0; i < rows; i++)
        sql_printf(sql, "%s(?,?,?,?,?,?)", i == 0 ? "" : ",");
    sql_printf(sql, USER_QUOTA_ADD, LEDGER_QUOTA_ORDERS_MAX);
}

static void orders_text(struct sql_text *sql, size_t rows, enum kind kind)
{
    bool expiring = kind == EXPIRING;
    sql_printf(sql,
               "INSERT INTO orders(order_id,sku,round,user_id,qty,segment,idempotency_key,"
               "created_at%s)VALUES",
               expiring ? ",expires_at" : "");
    for (size_t i = 0; i < rows; i++)
        sql_printf(sql, "%s(?,?,?,?,?,?,?,?%s)", i == 0 ? "" : ",", expiring ? ",?" : "");
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
    size_t columns = kind == EXPIRING ? COLUMNS : kind == LASTING ? COLUMNS - 1 : QUOTA_COLUMNS;
    MYSQL_BIND *binds = calloc(rows * columns + 1, sizeof *binds);
    MYSQL_STMT *statement = mysql_stmt_init(db_handle(db));
    if (!binds || !statement)
        abort();
    for (size_t i = 0; i < rows; i++)
        if (kind == QUOTAS)
            bind_quota(&insert->rows[i], &binds[i * columns]);
        else
            bind_row(&insert->rows[i], &binds[i * columns]); /* its last is the next one's first */
    if (kind == QUOTAS)
        quotas_text(&sql, rows);
    else
        orders_text(&sql, rows, kind);
    /* Bound once and for all: the rows stay where they are, and only their contents change. */
    bool failed = mysql_stmt_prepare(statement, sql.text, (unsigned long)sql.length) != 0 ||
                  mysql_stmt_bind_param(statement, binds) != 0; /* which copies the bindings */
    sql_free(&sql);
    free(binds);
    if (failed)
        return prepare_failed(db, statement);
    *statement_out = statement;
    return DB_OK;
}

static void set_text(char *out, unsigned long *length_out, const char *text)
{
    size_t length = strlen(text);
    assert(length < IDENTIFIER_SIZE);
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
    const char *key = order->key ? order->key : "";
    row->order_id = order->order_id;
    row->round = order->round;
    row->qty = order->qty;
    row->limit = order->limit;
    row->no_segment = order->segment == LEDGER_SEGMENT_SEVERAL;
    row->segment = row->no_segment ? 0 : (uint32_t)order->segment;
    row->no_key = key[0] == '\0';
    set_text(row->sku, &row->sku_length, order->sku);
    set_text(row->user_id, &row->user_length, order->user_id);
    set_text(row->key, &row->key_length, key);
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

static enum kind fill_rows(struct order_insert *insert, const struct ledger_order *orders,
                           size_t count)
{
    struct moment created = {.ms = -1}, expires = {.ms = -1};
    enum kind kind = LASTING;
    for (size_t i = 0; i < count; i++) {
        struct row *row = &insert->rows[i];
        fill_row(row, &orders[i]);
        row->created_at = time_at(&created, orders[i].created_ms);
        row->no_expiry = orders[i].expires_ms == 0;
        if (row->no_expiry)
            continue;
        row->expires_at = time_at(&expires, orders[i].expires_ms);
        kind = EXPIRING;
    }
    return kind;
}

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

/* Writes the first `count` rows. A new connection knows nothing of what was prepared on the one
 * before it. */
static enum db_result run(struct order_insert *insert, struct db *db, enum kind kind, size_t count)
{
    if (insert->generation != db_generation(db))
        forget_statements(insert);
    insert->generation = db_generation(db);
    MYSQL_STMT **statement = &insert->statements[kind][slot_of(count)];
    enum db_result result = *statement ? DB_OK : prepare(insert, db, count, kind, statement);
    if (result != DB_OK)
        return result;
    if (mysql_stmt_execute(*statement) == 0)
        return DB_OK;
    return db_statement_error(db, mysql_stmt_errno(*statement), mysql_stmt_error(*statement));
}

enum db_result order_insert_run(struct order_insert *insert, struct db *db,
                                const struct ledger_order *orders, size_t count)
{
    enum db_result result = DB_OK;
    for (size_t done = 0, part; done < count && result == DB_OK; done += part) {
        part = part_of(count - done);
        result = run(insert, db, fill_rows(insert, orders + done, part), part);
    }
    return result;
}

enum db_result order_insert_quotas(struct order_insert *insert, struct db *db,
                                   const struct ledger_order *const *orders, size_t count)
{
    enum db_result result = DB_OK;
    for (size_t done = 0, part; done < count && result == DB_OK; done += part) {
        part = part_of(count - done);
        for (size_t i = 0; i < part; i++)
            fill_row(&insert->rows[i], orders[done + i]);
        result = run(insert, db, QUOTAS, part);
    }
    return result;
}
