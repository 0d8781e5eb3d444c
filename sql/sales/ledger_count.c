/* Counting what the users of a sale have, after a limit was set while the sale ran.
 *
 * why_checked: where the orders of the round begin is a guess, by the clocks that made their ids.
 * So the sale opens only when its users have as many units as its segments have sold; else all
 * orders that there are get counted. A return that comes before the sum makes it no greater than
 * what was counted of each user, also when the order was not counted: so the sums are equal only
 * when every user is right.
 *
 * why_exact: the sale is closed, so it gets no orders meanwhile, but orders may be returned. A
 * piece and a return wait for each other at the row of quota_count (text_counted in
 * ledger_return.c). So a piece sees every return that went before it, and a return knows whether
 * its order was counted.
 *
 * why_this_order: transactions lock the sale, segments, the row of quota_count and the users'
 * quotas in this order and leave out what they do not need; while they hold one of these they wait
 * for no order. So they cannot deadlock, and that is why opening the sale, which changes the
 * segments, is a transaction of its own. */
#include "sql/sales/sales.h"

#include <assert.h>

#include "sql/ledger/ledger_query.h"
#include "sql/sales/ledger_round.h"
#include "sql/orders/user_quota.h"

struct step {
    struct ledger *ledger;
    const char *sku;
    uint32_t rows;
    uint32_t round;
    uint32_t limit;
    bool cleared; /* what an earlier limit had counted is deleted */
    bool all;     /* from id 0 on, to whatever end */
    uint64_t counted_to, last_id;
};

enum ledger_result ledger_count_find(struct ledger *ledger, char sku_out[IDENTIFIER_SIZE])
{
    sql_begin(&ledger->sql, "SELECT sku,round FROM quota_count JOIN sale USING(sku,round)LIMIT %d",
              LEDGER_DAMAGED_MAX);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = ledger_round_row(ledger, "quota_count");
    if (row)
        ledger_identifier(sku_out, row[0]);
    return row ? LEDGER_OK : LEDGER_NO;
}

/* A row that a reset has left behind is of another round than the sale. */
static enum db_result lock(struct step *step, struct db *db)
{
    struct sql_text *sql = &step->ledger->sql;
    sql_begin(sql, "SELECT sku FROM sale WHERE sku=");
    sql_identifier(sql, step->sku);
    sql_printf(sql, " FOR UPDATE;SELECT round,per_user_limit,counted_to,last_id,"
                    "last_id=" LEDGER_ID_END " FROM quota_count JOIN sale USING(sku,round)"
                    "WHERE sku=");
    sql_identifier(sql, step->sku);
    sql_printf(sql, " FOR UPDATE");
    enum db_result result = ledger_query(step->ledger);
    if (result != DB_OK)
        return result;
    char **row = db_row(db);
    if (!row || !row[0] || !row[3])
        return DB_NO;
    step->round = ledger_u32(row[0]);
    step->limit = ledger_u32(row[1]);
    step->cleared = row[2] != NULL;
    step->counted_to = ledger_u64(row[2]);
    step->last_id = ledger_u64(row[3]);
    step->all = ledger_u32(row[4]) == 1;
    return DB_OK;
}

/* Notes how far the counting has come. */
static void text_counted_to(struct step *step, uint64_t id)
{
    struct sql_text *sql = &step->ledger->sql;
    step->counted_to = id;
    sql_printf(sql, "UPDATE quota_count SET counted_to=%llu WHERE sku=", (unsigned long long)id);
    sql_identifier(sql, step->sku);
}

/* The next step counts. */
static enum db_result begin_count(struct step *step)
{
    struct sql_text *sql = &step->ledger->sql;
    sql_begin(sql, "UPDATE quota_count SET counted_to=");
    if (step->all)
        sql_append(sql, "0", 1);
    else
        ledger_round_first_text(sql, step->sku, step->round);
    sql_text_identifier(sql, " WHERE sku=", step->sku);
    return ledger_query(step->ledger);
}

static enum db_result forget(struct step *step, struct db *db)
{
    struct sql_text *sql = &step->ledger->sql;
    sql_clear(sql);
    user_quota_text_forget(sql, step->sku, step->rows);
    enum db_result result = ledger_query(step->ledger);
    if (result != DB_OK || db_affected(db, 0) >= step->rows)
        return result;
    return begin_count(step);
}

/* Finds the last of the next `rows` orders. */
static enum db_result find_end(struct step *step, struct db *db, uint64_t *end_out)
{
    struct sql_text *sql = &step->ledger->sql;
    sql_begin(sql,
              "SELECT COUNT(*),MAX(order_id)FROM(SELECT order_id FROM orders WHERE "
              "order_id>%llu AND order_id<=%llu ORDER BY order_id LIMIT %u)o",
              (unsigned long long)step->counted_to, (unsigned long long)step->last_id, step->rows);
    enum db_result result = ledger_query(step->ledger);
    if (result != DB_OK)
        return result;
    char **row = db_row(db);
    if (!row)
        return DB_FAILED;
    *end_out = ledger_u32(row[0]) < step->rows ? step->last_id : ledger_u64(row[1]);
    return DB_OK;
}

static enum db_result count(struct step *step, struct db *db)
{
    struct sql_text *sql = &step->ledger->sql;
    uint64_t end = 0;
    enum db_result result = find_end(step, db, &end);
    if (result != DB_OK)
        return result;
    sql_clear(sql);
    user_quota_text_count(sql, step->sku, step->round, step->limit, step->counted_to, end);
    text_counted_to(step, end);
    return ledger_query(step->ledger);
}

static bool is_complete(const struct step *step)
{
    return step->cleared && step->counted_to >= step->last_id;
}

static enum db_result step_body(struct db *db, void *context)
{
    struct step *step = context;
    enum db_result result = lock(step, db);
    if (result != DB_OK || is_complete(step))
        return result;
    return step->cleared ? count(step, db) : forget(step, db);
}

/* Opens the sale, unless a reset or another limit came in between: its row is locked first, and
 * then looked at. */
static enum db_result open_body(struct db *db, void *context)
{
    const struct step *step = context;
    struct sql_text *sql = &step->ledger->sql;
    sql_begin(sql, "SELECT sku FROM sale WHERE sku=");
    sql_identifier(sql, step->sku);
    sql_text_identifier(sql,
                        " FOR UPDATE;UPDATE sale JOIN quota_count c "
                        "ON c.sku=sale.sku AND c.round=sale.round "
                        "SET settings_version=settings_version+1 "
                        "WHERE counted_to>=last_id AND sale.sku=",
                        step->sku);
    sql_text_identifier(sql,
                        ";UPDATE stock_segment g JOIN sale ON sale.sku=g.sku "
                        "SET g.settings_version=sale.settings_version WHERE g.sku=",
                        step->sku);
    sql_text_identifier(sql, ";DELETE FROM quota_count WHERE sku=", step->sku);
    enum db_result result = ledger_query(step->ledger);
    return result == DB_OK && db_affected(db, 1) != 1 ? DB_NO : result;
}

/* One statement sees each return wholly or not at all. LEDGER_NO: orders were missed. */
static enum ledger_result compare_sums(struct step *step)
{
    struct sql_text *sql = &step->ledger->sql;
    uint32_t equal = 0;
    sql_begin(sql, "SELECT(SELECT COALESCE(SUM(units),0)FROM user_quota WHERE round=%u AND sku=",
              step->round);
    sql_identifier(sql, step->sku);
    sql_printf(sql, ")=(SELECT COALESCE(SUM(sold),0)FROM stock_segment WHERE round=%u AND sku=",
               step->round);
    sql_identifier(sql, step->sku);
    sql_append(sql, ")", 1);
    enum ledger_result result = ledger_read_number(step->ledger, &equal);
    return result == LEDGER_OK && equal == 0 ? LEDGER_NO : result;
}

/* Begins again, from id 0. */
static enum ledger_result count_all(struct step *step)
{
    struct sql_text *sql = &step->ledger->sql;
    sql_begin(sql,
              "UPDATE quota_count SET counted_to=NULL,last_id=" LEDGER_ID_END
              " WHERE round=%u AND counted_to>=last_id AND sku=",
              step->round);
    sql_identifier(sql, step->sku);
    return ledger_read(step->ledger) == DB_OK ? LEDGER_OK : LEDGER_FAILED;
}

enum ledger_result ledger_count_step(struct ledger *ledger, const char *sku, uint32_t rows)
{
    struct step step = {.ledger = ledger, .sku = sku, .rows = rows};
    assert(rows > 0);
    enum ledger_result result = ledger_from_db(db_run(ledger->db, step_body, &step));
    if (result != LEDGER_OK || !is_complete(&step))
        return result;
    result = step.all ? LEDGER_OK : compare_sums(&step);
    if (result != LEDGER_OK)
        return result == LEDGER_NO ? count_all(&step) : result;
    result = ledger_from_db(db_run(ledger->db, open_body, &step));
    bool opened = result == LEDGER_OK, overtaken = result == LEDGER_NO;
    return opened ? LEDGER_NO : overtaken ? LEDGER_OK : result;
}
