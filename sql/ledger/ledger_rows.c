/* Rows that other transactions hold: looked for without waiting, and what is known of a holder. */
#include "sql/ledger/ledger.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "sql/ledger/ledger_query.h"

enum { LOOK_MAX = 512 }; /* rows of one query: MariaDB makes a subquery of a list of 1000 */

/* Columns of a row's key as text; a kind without a number, or without a user, has the same in all
 * rows. */
static const char *const selects[] = {
    [LEDGER_ROW_SALE] = "SELECT sku,0,'' FROM sale FORCE INDEX(PRIMARY)WHERE sku IN(",
    [LEDGER_ROW_SEGMENT] = "SELECT sku,segment,'' FROM stock_segment FORCE INDEX(PRIMARY)"
                           "WHERE(sku,segment)IN(",
    [LEDGER_ROW_QUOTA] = "SELECT sku,round,user_id FROM user_quota FORCE INDEX(PRIMARY)"
                         "WHERE(sku,round,user_id)IN(",
};

struct look {
    struct ledger *ledger;
    enum ledger_row_kind kind;
    struct ledger_row *rows[LOOK_MAX]; /* sorted: a row may have been given more than once */
    size_t count;
};

bool ledger_met_held_row(const struct ledger *ledger)
{
    return db_met_held_row(ledger->db);
}

static int compare_rows(const struct ledger_row *a, const struct ledger_row *b)
{
    int order = strcmp(a->sku, b->sku);
    if (order == 0)
        order = (a->number > b->number) - (a->number < b->number);
    return order == 0 && a->user_id && b->user_id ? strcmp(a->user_id, b->user_id) : order;
}

static int compare(const void *left, const void *right)
{
    return compare_rows(*(struct ledger_row *const *)left, *(struct ledger_row *const *)right);
}

static void text_look(const struct look *look, const char *head, const char *tail)
{
    struct sql_text *sql = &look->ledger->sql;
    sql_begin(sql, "%-s%-s", head, selects[look->kind]);
    for (size_t i = 0; i < look->count; i++) {
        const struct ledger_row *row = look->rows[i];
        const char *comma = i == 0 ? "" : ",";
        if (look->kind == LEDGER_ROW_SALE)
            sql_printf(sql, "%-s%s", comma, row->sku);
        else if (look->kind == LEDGER_ROW_SEGMENT)
            sql_printf(sql, "%-s(%s,%u)", comma, row->sku, row->number);
        else
            sql_printf(sql, "%-s(%s,%u,%s)", comma, row->sku, row->number, row->user_id);
    }
    sql_printf(sql, ")%-s", tail);
}

/* Sets `held` of the rows that the query has found. */
static bool mark_found(const struct look *look, bool held)
{
    if (ledger_read(look->ledger) != DB_OK)
        return false;
    for (char **row = db_row(look->ledger->db); row; row = db_row(look->ledger->db)) {
        struct ledger_row key = {.sku = row[0], .number = ledger_u32(row[1]), .user_id = row[2]};
        struct ledger_row *wanted = &key;
        struct ledger_row *const *found =
            bsearch(&wanted, look->rows, look->count, sizeof *look->rows, compare);
        if (!found) /* was not asked for */
            continue;
        while (found > look->rows && compare_rows(found[-1], &key) == 0)
            found--;
        for (; found < look->rows + look->count && compare_rows(*found, &key) == 0; found++)
            (*found)->held = held;
    }
    return true;
}

/* First all rows that are there, committed or not; then those that can be locked at once. */
static bool look_some(struct look *look)
{
    qsort(look->rows, look->count, sizeof *look->rows, compare);
    text_look(look, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;", "");
    if (!mark_found(look, true))
        return false;
    text_look(look, "", "FOR UPDATE SKIP LOCKED");
    return mark_found(look, false);
}

enum ledger_result ledger_rows_look(struct ledger *ledger, enum ledger_row_kind kind,
                                    struct ledger_row *rows, size_t count)
{
    bool looked = true;
    for (size_t i = 0; i < count; i++)
        rows[i].held = false;
    for (size_t done = 0; done < count && looked; done += LOOK_MAX) {
        struct look look = {.ledger = ledger, .kind = kind};
        for (size_t i = done; i < count && look.count < LOOK_MAX; i++)
            look.rows[look.count++] = &rows[i];
        looked = look_some(&look);
    }
    for (size_t i = 0; i < count && !looked; i++)
        rows[i].held = false;
    return looked ? LEDGER_OK : LEDGER_FAILED;
}

/* MariaDB and MySQL 8 both have these tables. A server that refuses them has not failed. The text in
 * ledger->sql stays: it may have to be run again. */
static void find_holder(struct ledger *ledger, const char *condition,
                        char holder_out[LEDGER_HOLDER_SIZE])
{
    char question[512];
    int length = snprintf(
        question, sizeof question,
        "SELECT t.trx_mysql_thread_id,t.trx_started,COALESCE(CONCAT(p.user,'@',p.host),'?') "
        "FROM information_schema.innodb_trx t LEFT JOIN information_schema.processlist p "
        "ON p.id=t.trx_mysql_thread_id WHERE %s "
        "AND t.trx_mysql_thread_id<>CONNECTION_ID()ORDER BY t.trx_started LIMIT 1",
        condition);
    struct fault before = *db_fault(ledger->db);
    enum db_result result = db_query(ledger->db, question, (size_t)length);
    char **row = result == DB_OK ? db_row(ledger->db) : NULL;
    if (row)
        snprintf(holder_out, LEDGER_HOLDER_SIZE, "connection %s of %s, in a transaction since %s",
                 row[0], row[2], row[1]);
    else
        snprintf(holder_out, LEDGER_HOLDER_SIZE, "unknown");
    if (!db_in_doubt(ledger->db))
        *db_fault(ledger->db) = before;
}

void ledger_row_holder(struct ledger *ledger, char holder_out[LEDGER_HOLDER_SIZE])
{
    find_holder(ledger, "t.trx_rows_locked>0", holder_out);
}

void ledger_table_holder(struct ledger *ledger, char holder_out[LEDGER_HOLDER_SIZE])
{
    find_holder(ledger, "1=1", holder_out);
}
