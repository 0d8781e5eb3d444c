/* Looks, without waiting, for rows that other transactions hold, and describes a holder. */
#include "sql/ledger/ledger.h"

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "sql/ledger/ledger_query.h"

enum { LOOK_MAX = 512 }; /* rows of one query: MariaDB makes a subquery of a list of 1000 */

/* Columns of a row's key as text; a kind without a number or user has a constant there. */
static const char *const selects[] = {
    [LEDGER_ROW_SALE] = "SELECT sku,0,'' FROM sale FORCE INDEX(PRIMARY)WHERE sku IN(",
    [LEDGER_ROW_SEGMENT] = "SELECT sku,segment,'' FROM stock_segment FORCE INDEX(PRIMARY)"
                           "WHERE(sku,segment)IN(",
    [LEDGER_ROW_QUOTA] = "SELECT sku,round,user_id FROM user_quota FORCE INDEX(PRIMARY)"
                         "WHERE(sku,round,user_id)IN(",
};

bool ledger_met_held_row(const struct ledger *ledger)
{
    return db_met_held_row(ledger->db);
}

/* Queries rows of one kind and sets `held` of those found; a row may be given repeatedly. */
static bool mark_found(struct ledger *ledger, enum ledger_row_kind kind, const char *head,
                       const char *tail, struct ledger_row *rows, size_t count, bool held)
{
    struct sql_text *sql = &ledger->sql;
    sql_begin(sql, "%-s%-s", head, selects[kind]);
    for (size_t i = 0; i < count; i++) {
        const char *comma = i == 0 ? "" : ",";
        if (kind == LEDGER_ROW_SALE)
            sql_printf(sql, "%-s%s", comma, rows[i].sku);
        else if (kind == LEDGER_ROW_SEGMENT)
            sql_printf(sql, "%-s(%s,%u)", comma, rows[i].sku, rows[i].number);
        else
            sql_printf(sql, "%-s(%s,%u,%s)", comma, rows[i].sku, rows[i].number, rows[i].user_id);
    }
    sql_printf(sql, ")%-s", tail);
    if (ledger_read(ledger) != DB_OK)
        return false;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        uint32_t number = ledger_u32(row[1]);
        for (size_t i = 0; i < count; i++)
            if ((kind == LEDGER_ROW_SALE || rows[i].number == number) &&
                strcmp(rows[i].sku, row[0]) == 0 &&
                (kind != LEDGER_ROW_QUOTA || strcmp(rows[i].user_id, row[2]) == 0))
                rows[i].held = held;
    }
    return true;
}

/* Marks all existing rows as held, committed or not, and unmarks those that it can lock at once. */
static bool look_some(struct ledger *ledger, enum ledger_row_kind kind, struct ledger_row *rows,
                      size_t count)
{
    return mark_found(ledger, kind, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;", "", rows,
                      count, true) &&
           mark_found(ledger, kind, "", "FOR UPDATE SKIP LOCKED", rows, count, false);
}

enum ledger_result ledger_rows_look(struct ledger *ledger, enum ledger_row_kind kind,
                                    struct ledger_row *rows, size_t count)
{
    bool looked = true;
    for (size_t i = 0; i < count; i++)
        rows[i].held = false;
    for (size_t done = 0; done < count && looked; done += LOOK_MAX)
        looked =
            look_some(ledger, kind, rows + done, count - done < LOOK_MAX ? count - done : LOOK_MAX);
    for (size_t i = 0; i < count && !looked; i++)
        rows[i].held = false;
    return looked ? LEDGER_OK : LEDGER_FAILED;
}

/* MariaDB and MySQL 8 both have these tables. A refusal does not count as a failure. The text in
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
