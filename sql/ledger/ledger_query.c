/* Opens and closes a ledger, runs its queries, and reads the columns of their rows. */
#include "sql/ledger/ledger_query.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "sql/ledger/ledger.h"

struct ledger *ledger_open(const char *url, int timeout_ms, char *error_out, size_t error_size)
{
    struct ledger *ledger = memory_must(calloc(1, sizeof *ledger));
    ledger->db = db_open(url, timeout_ms, error_out, error_size);
    if (!ledger->db) {
        free(ledger);
        return NULL;
    }
    db_set_row_wait(ledger->db, LEDGER_ROW_WAIT_S);
    return ledger;
}

void ledger_close(struct ledger **ledger)
{
    if (*ledger) {
        if ((*ledger)->rows)
            (*ledger)->rows_close(&(*ledger)->rows);
        db_close(&(*ledger)->db);
        sql_free(&(*ledger)->sql);
    }
    free(*ledger);
    *ledger = NULL;
}

const char *ledger_error(const struct ledger *ledger)
{
    return db_error(ledger->db);
}

struct fault *ledger_fault(struct ledger *ledger)
{
    return db_fault(ledger->db);
}

const char *ledger_place(const struct ledger *ledger)
{
    return db_place(ledger->db);
}

struct db_stats ledger_stats(const struct ledger *ledger)
{
    return db_stats(ledger->db);
}

const char *ledger_server(const struct ledger *ledger)
{
    return db_server(ledger->db);
}

void ledger_look(struct ledger *ledger)
{
    db_look(ledger->db);
}

bool ledger_split(const struct ledger *ledger)
{
    return db_split(ledger->db);
}

uint64_t ledger_connection(const struct ledger *ledger)
{
    return db_stats(ledger->db).connects;
}

uint64_t ledger_connect(struct ledger *ledger)
{
    db_connect(ledger->db);
    return ledger_connection(ledger);
}

struct db_wait ledger_wait(const struct ledger *ledger)
{
    return db_wait(ledger->db);
}

enum ledger_result ledger_ping(struct ledger *ledger)
{
    return ledger_from_db(db_ping(ledger->db));
}

/* ---- queries ---- */

enum db_result ledger_query(struct ledger *ledger)
{
    return db_query(ledger->db, ledger->sql.text, ledger->sql.length);
}

/* The server closes connections that are idle for long; the next query notices it. */
enum db_result ledger_read(struct ledger *ledger)
{
    enum db_result result = ledger_query(ledger);
    return result == DB_FAILED && db_in_doubt(ledger->db) ? ledger_query(ledger) : result;
}

static void begin(struct ledger *ledger, const char *format, va_list *args)
{
    sql_clear(&ledger->sql);
    sql_vprintf(&ledger->sql, format, args);
}

enum db_result ledger_do(struct ledger *ledger, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    begin(ledger, format, &args);
    va_end(args);
    return ledger_query(ledger);
}

enum db_result ledger_do_row(struct ledger *ledger, char ***row_out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    begin(ledger, format, &args);
    va_end(args);
    enum db_result result = ledger_query(ledger);
    *row_out = result == DB_OK ? db_row(ledger->db) : NULL;
    return result == DB_OK && !*row_out ? DB_NO : result;
}

enum ledger_result ledger_read_row(struct ledger *ledger, char ***row_out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    begin(ledger, format, &args);
    va_end(args);
    bool read = ledger_read(ledger) == DB_OK;
    *row_out = read ? db_row(ledger->db) : NULL;
    return !read ? LEDGER_FAILED : *row_out ? LEDGER_OK : LEDGER_NO;
}

enum db_result ledger_piece_end(struct ledger *ledger,
                                enum db_result (*query)(struct ledger *ledger), uint64_t after,
                                size_t rows, uint64_t *end_out)
{
    sql_begin(&ledger->sql,
              "SELECT order_id FROM orders WHERE order_id>%ju ORDER BY order_id LIMIT %ju,1", after,
              (uint64_t)rows - 1);
    enum db_result result = query(ledger);
    char **row = result == DB_OK ? db_row(ledger->db) : NULL;
    *end_out = row ? ledger_u64(row[0]) : UINT64_MAX;
    return result;
}

enum ledger_result ledger_from_db(enum db_result result)
{
    static const enum ledger_result map[] = {
        [DB_OK] = LEDGER_OK,           [DB_NO] = LEDGER_NO,       [DB_DUPLICATE] = LEDGER_DUPLICATE,
        [DB_CHECK] = LEDGER_LIMIT,     [DB_SOFT] = LEDGER_FAILED, [DB_FAILED] = LEDGER_FAILED,
        [DB_UNKNOWN] = LEDGER_UNKNOWN,
    };
    return map[result];
}

void ledger_note_damage(struct ledger *ledger, const char *format, ...)
{
    va_list args;
    char text[256];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fault_note_damage(ledger_fault(ledger), text);
}

bool ledger_number_valid(const char *column, uint64_t min, uint64_t max)
{
    uint64_t number = ledger_u64(column);
    return column && number >= min && number <= max;
}

bool ledger_identifier_read(char out[IDENTIFIER_SIZE], const char *column)
{
    out[0] = '\0';
    return column && identifier_copy(column, strlen(column), out);
}

bool ledger_order_valid(char **row)
{
    char sku[IDENTIFIER_SIZE], user_id[USER_ID_SIZE];
    return ledger_identifier_read(sku, row[1]) &&
           ledger_number_valid(row[2], 1, LEDGER_ROUND_MAX) && row[3] &&
           user_id_copy(row[3], strlen(row[3]), user_id) &&
           ledger_number_valid(row[4], 1, LEDGER_TOTAL_MAX);
}

enum ledger_result ledger_find_round(struct ledger *ledger, const char *table, char ***row_out)
{
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        *row_out = row;
        if (row[0] && identifier_valid(row[0], strlen(row[0])) &&
            ledger_number_valid(row[1], 0, LEDGER_ROUND_MAX))
            return LEDGER_OK;
        ledger_note_damage(ledger, "%s: sku '%s', round %s", table, row[0] ? row[0] : "NULL",
                           row[1] ? row[1] : "NULL");
    }
    return LEDGER_NO;
}

uint32_t ledger_u32(const char *column)
{
    return column ? (uint32_t)strtoul(column, NULL, 10) : 0;
}

uint64_t ledger_u64(const char *column)
{
    return column ? strtoull(column, NULL, 10) : 0;
}

void ledger_identifier(char out[IDENTIFIER_SIZE], const char *column)
{
    snprintf(out, IDENTIFIER_SIZE, "%s", column ? column : "");
}

void ledger_user_id(char out[USER_ID_SIZE], const char *column)
{
    snprintf(out, USER_ID_SIZE, "%s", column ? column : "");
}
