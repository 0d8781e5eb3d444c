/* Private to sql/: the inside of a ledger, its queries, and the columns of their rows. */
#ifndef SQL_LEDGER_QUERY_H
#define SQL_LEDGER_QUERY_H

#include "sql/ledger/ledger.h"
#include "sql/db/sql_text.h"

struct ledger {
    struct db *db;
    struct sql_text
        sql; /* the text of the next query, kept so that the hot path does not allocate */
    struct commit_rows *rows; /* kept by ledger_commit; NULL before the first commit */
    void (*rows_close)(struct commit_rows **rows);
    bool events;       /* set by ledger_events_write */
    bool without_bulk; /* set by a test: use the statements that MySQL gets */
};

/* Runs ledger->sql, within db_run or by itself. */
enum db_result ledger_query(struct ledger *ledger);

/* Runs ledger->sql by itself, outside db_run; if the connection is lost, once more on a new one.
 * Only for a text that can be repeated without harm. */
enum db_result ledger_read(struct ledger *ledger);

/* Each of these begins ledger->sql anew, as sql_begin does, and runs it: as ledger_query; as
 * ledger_query for one row (DB_NO: no row); as ledger_read for one row (LEDGER_OK, LEDGER_FAILED,
 * or LEDGER_NO: no row). */
enum db_result ledger_do(struct ledger *ledger, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
enum db_result ledger_do_row(struct ledger *ledger, char ***row_out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum ledger_result ledger_read_row(struct ledger *ledger, char ***row_out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Finds the last of the next `rows` orders with ids above `after`, by `query` (ledger_query or
 * ledger_read), so that a call reads a bounded piece of the table. UINT64_MAX: there are fewer. */
enum db_result ledger_piece_end(struct ledger *ledger,
                                enum db_result (*query)(struct ledger *ledger), uint64_t after,
                                size_t rows, uint64_t *end_out);

enum ledger_result ledger_from_db(enum db_result result);

/* why_checked: rows are input. An operator, a restore or a replica may have damaged one, and a
 * daemon that stops at it stops again at each start. So a row that makes no sense is noted with its
 * key, and the others are read on. */

/* Notes in ledger_fault a row that makes no sense: which, by its key, and what is wrong with it. */
void ledger_note_damage(struct ledger *ledger, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* True for a number from `min` to `max`; false for NULL. */
bool ledger_number_valid(const char *column, uint64_t min, uint64_t max);

/* Copies a sku or key. False, with "" as the result, when the column has no identifier. */
bool ledger_identifier_read(char out[IDENTIFIER_SIZE], const char *column);

/* True when columns 1 to 4 of a row of orders are a valid sku, round, user and quantity. */
bool ledger_order_valid(char **row);

/* Runs ledger->sql, as ledger_read does, whose first columns are a sku and a round of `table`, and
 * finds the first row that makes sense; notes damaged rows before it. LEDGER_NO: no such row. */
enum ledger_result ledger_find_round(struct ledger *ledger, const char *table, char ***row_out);

/* The key in order_key of an order `o` of a query, as SQL: its own, or '#' and its id, which no
 * client can send. */
#define LEDGER_KEY_OF_ORDER "COALESCE(o.idempotency_key,CONCAT('#',o.order_id))"

enum { LEDGER_DAMAGED_MAX = 100 }; /* damaged rows that a search for one row looks past */

/* Columns as values; SQL NULL is 0 or "". */
uint32_t ledger_u32(const char *column);
uint64_t ledger_u64(const char *column);
void ledger_identifier(char out[IDENTIFIER_SIZE], const char *column);
void ledger_user_id(char out[USER_ID_SIZE], const char *column);

#endif
