/* Counts the units of a sale's users, after a limit was set while the sale ran.
 *
 * why_checked: where the orders of the round begin is a guess, by the clocks that made their ids.
 * So the sale opens only when its users have as many units as its segments have sold; otherwise all
 * orders get counted. A return before the comparison can lower a user's count, even for an order
 * that was not counted, but never raises it: so equal sums mean that every user is right.
 *
 * why_exact: the sale is closed, so it gets no orders meanwhile, but orders may be returned. A
 * piece and a return wait for each other at the row of quota_count (text_counted in
 * ledger_return.c). So a piece sees every earlier return, and a return knows whether its order was
 * counted.
 *
 * why_this_order: transactions lock the sale, segments, the row of quota_count and the users'
 * quotas in this order, omit what they do not need, and wait for no order meanwhile. So they cannot
 * deadlock, and that is why opening the sale, which changes the segments, is a transaction of its
 * own. */
#include "sql/sales/sales.h"

#include <assert.h>

#include "sql/ledger/ledger_query.h"
#include "sql/sales/ledger_round.h"
#include "sql/orders/orders.h"

struct step {
    struct ledger *ledger;
    const char *sku;
    uint32_t rows;
    uint32_t round;
    uint32_t limit;
    bool cleared; /* what an earlier limit had counted is deleted */
    bool all;     /* from id 0 to the end of the table */
    uint64_t counted_to, last_id;
};

enum ledger_result ledger_count_find(struct ledger *ledger, char sku_out[IDENTIFIER_SIZE])
{
    char **row;
    sql_begin(&ledger->sql, "SELECT sku,round FROM quota_count JOIN sale USING(sku,round)LIMIT %d",
              LEDGER_DAMAGED_MAX);
    enum ledger_result result = ledger_find_round(ledger, "quota_count", &row);
    if (result == LEDGER_OK)
        ledger_identifier(sku_out, row[0]);
    return result;
}

/* A row that a reset has left behind has another round than the sale. */
static enum db_result lock(struct step *step)
{
    char **row;
    enum db_result result =
        ledger_do_row(step->ledger, &row,
                      "SELECT sku FROM sale WHERE sku=%s FOR UPDATE;"
                      "SELECT round,per_user_limit,counted_to,last_id,last_id=" LEDGER_ID_END
                      " FROM quota_count JOIN sale USING(sku,round)WHERE sku=%s FOR UPDATE",
                      step->sku, step->sku);
    if (result != DB_OK)
        return result;
    if (!row[0] || !row[3])
        return DB_NO;
    step->round = ledger_u32(row[0]);
    step->limit = ledger_u32(row[1]);
    step->cleared = row[2] != NULL;
    step->counted_to = ledger_u64(row[2]);
    step->last_id = ledger_u64(row[3]);
    step->all = ledger_u32(row[4]) == 1;
    return DB_OK;
}

/* Deletes the counts of all rounds; when nothing is left, the next step counts. */
static enum db_result forget(const struct step *step)
{
    struct ledger *ledger = step->ledger;
    enum db_result result =
        ledger_do(ledger, "DELETE FROM user_quota WHERE sku=%s ORDER BY round,user_id LIMIT %u",
                  step->sku, step->rows);
    if (result != DB_OK || db_affected(ledger->db, 0) >= step->rows)
        return result;
    return ledger_do(
        ledger, "UPDATE quota_count SET counted_to=IF(%d,0," LEDGER_ROUND_FIRST ")WHERE sku=%s",
        step->all, step->sku, step->round, step->sku);
}

/* Counts the orders up to `end`, except those counted while the sale had no limit. A user who has
 * more than the limit keeps it.
 *
 * GROUP_CONCAT fails the statement when one user's ids are too long. MariaDB takes a limit for the
 * ids; MySQL has none, so db_connection.c raises the allowed length. `units` after its assignment
 * is the sum. It is bounded, because a damaged order may have more units than the column holds, and
 * the sale would never open. */
static void text_count(const struct step *step, uint64_t end)
{
    sql_begin(&step->ledger->sql,
              "INSERT INTO user_quota(sku,round,user_id,units,allowed,order_ids)"
              "SELECT sku,round,user_id,LEAST(SUM(" LEDGER_UNITS_HELD "),%d),"
              "GREATEST(%u,LEAST(SUM(" LEDGER_UNITS_HELD "),%d)),"
              "SUBSTRING_INDEX("
              "GROUP_CONCAT(order_id ORDER BY order_id DESC/*M!100303 LIMIT %d*/),',',%d)"
              "FROM orders FORCE INDEX(PRIMARY)WHERE order_id>%ju AND order_id<=%ju "
              "AND " LEDGER_UNITS_HELD ">0 AND round=%u AND sku=%s "
              "GROUP BY sku,round,user_id ON DUPLICATE KEY UPDATE "
              "units=LEAST(units+VALUES(units),%d),"
              "allowed=GREATEST(VALUES(allowed),units),order_ids=SUBSTRING_INDEX(CONCAT("
              "VALUES(order_ids),IF(order_ids='','',','),order_ids),',',%d);",
              LEDGER_TOTAL_MAX, step->limit, LEDGER_TOTAL_MAX, LEDGER_QUOTA_ORDERS_MAX,
              LEDGER_QUOTA_ORDERS_MAX, step->counted_to, end, step->round, step->sku,
              LEDGER_TOTAL_MAX, LEDGER_QUOTA_ORDERS_MAX);
}

static enum db_result count(struct step *step)
{
    uint64_t end = 0;
    enum db_result result =
        ledger_piece_end(step->ledger, ledger_query, step->counted_to, step->rows, &end);
    if (result != DB_OK)
        return result;
    end = end < step->last_id ? end : step->last_id;
    text_count(step, end);
    step->counted_to = end;
    sql_printf(&step->ledger->sql, "UPDATE quota_count SET counted_to=%ju WHERE sku=%s", end,
               step->sku);
    return ledger_query(step->ledger);
}

static bool is_complete(const struct step *step)
{
    return step->cleared && step->counted_to >= step->last_id;
}

static enum db_result go_on(struct step *step)
{
    enum db_result result = lock(step);
    if (result != DB_OK || is_complete(step))
        return result;
    return step->cleared ? count(step) : forget(step);
}

/* Opens the sale, unless a reset or another limit came in between: locks the row, then checks. */
static enum db_result open_sale(struct ledger *ledger, const char *sku)
{
    enum db_result result =
        ledger_do(ledger,
                  "SELECT sku FROM sale WHERE sku=%s FOR UPDATE;"
                  "UPDATE sale JOIN quota_count c ON c.sku=sale.sku AND c.round=sale.round "
                  "SET settings_version=settings_version+1 "
                  "WHERE counted_to>=last_id AND sale.sku=%s;"
                  "UPDATE stock_segment g JOIN sale ON sale.sku=g.sku "
                  "SET g.settings_version=sale.settings_version WHERE g.sku=%s;"
                  "DELETE FROM quota_count WHERE sku=%s",
                  sku, sku, sku, sku);
    return result == DB_OK && db_affected(ledger->db, 1) != 1 ? DB_NO : result;
}

/* One statement sees each return either wholly or not at all. LEDGER_NO: orders were missed. */
static enum ledger_result compare_sums(const struct step *step)
{
    char **row;
    enum ledger_result result = ledger_read_row(
        step->ledger, &row,
        "SELECT(SELECT COALESCE(SUM(units),0)FROM user_quota WHERE round=%u AND sku=%s)="
        "(SELECT COALESCE(SUM(sold),0)FROM stock_segment WHERE round=%u AND sku=%s)",
        step->round, step->sku, step->round, step->sku);
    return result == LEDGER_OK && ledger_u32(row[0]) == 0 ? LEDGER_NO : result;
}

/* Begins again, from id 0. */
static enum ledger_result count_all(const struct step *step)
{
    sql_begin(&step->ledger->sql,
              "UPDATE quota_count SET counted_to=NULL,last_id=" LEDGER_ID_END
              " WHERE round=%u AND counted_to>=last_id AND sku=%s",
              step->round, step->sku);
    return ledger_read(step->ledger) == DB_OK ? LEDGER_OK : LEDGER_FAILED;
}

enum ledger_result ledger_count_step(struct ledger *ledger, const char *sku, uint32_t rows)
{
    struct step step = {.ledger = ledger, .sku = sku, .rows = rows};
    struct db_run counting = {0}, opening = {0};
    assert(rows > 0);
    while (db_run(ledger->db, &counting))
        counting.result = go_on(&step);
    enum ledger_result result = ledger_from_db(counting.result);
    if (result != LEDGER_OK || !is_complete(&step))
        return result;
    result = step.all ? LEDGER_OK : compare_sums(&step);
    if (result != LEDGER_OK)
        return result == LEDGER_NO ? count_all(&step) : result;
    while (db_run(ledger->db, &opening))
        opening.result = open_sale(ledger, sku);
    result = ledger_from_db(opening.result);
    bool opened = result == LEDGER_OK, overtaken = result == LEDGER_NO;
    return opened ? LEDGER_NO : overtaken ? LEDGER_OK : result;
}
