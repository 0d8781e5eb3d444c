/* Stock updates, which move segments along their fences, as SQL.
 *
 * why_affected_rows: a guard is a condition of its UPDATE, so a refused update is one that changed
 * no row, as is one whose row is missing. The rows are counted before the commit. Making the guard
 * an error instead, so that the whole transaction could be sent as one packet up to its COMMIT, was
 * measured and gained nothing: the orders must then come first, and a connection lost anywhere in
 * the packet leaves an unknown commit. */
#include "sql/orders/stock_update.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/db/bulk.h"

/* One statement costs the server about 20 us, more than the joint one a row. */
enum { UPDATES_ALONE_MAX = 3, JOINT_COLUMNS = 9 };

/* MariaDB makes many updates by bulk bindings of this statement. Bulk bindings of an UPDATE would
 * be as many statements, while an INSERT opens its table once. The row is always there, so that
 * nothing is inserted: a missing one counts as refused, and is rolled back. A changed row counts
 * twice, an unchanged one not at all. The guard must not change between the two assignments, so
 * `fence` is the last; that the segment has the units is checked by the table itself. */
#define GUARD                                                                                      \
    "round=VALUES(round)AND settings_version=VALUES(settings_version)"                             \
    "AND fence=? AND fence<VALUES(fence)"
static const char joint_update[] =
    "INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence,settings_version)"
    "VALUES(?,?,?,?,?,?,?)ON DUPLICATE KEY UPDATE "
    "sold=IF(" GUARD ",sold+VALUES(sold),sold),fence=IF(" GUARD ",VALUES(fence),fence)";

/* On MySQL the joint statement reads the updates from one JSON text, the only list of rows that all
 * versions read; it costs 8 us a row. The updates come first in the join and the segments by their
 * key, so that no other row is read or locked. */
#define UPDATES_AS_ROWS                                                                            \
    "','$[*]' COLUMNS(i FOR ORDINALITY,"                                                           \
    "sku VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]',"                           \
    "segment INT UNSIGNED PATH '$[1]',round INT UNSIGNED PATH '$[2]',"                             \
    "settings_version INT UNSIGNED PATH '$[3]',units INT UNSIGNED PATH '$[4]',"                    \
    "settled BIGINT UNSIGNED PATH '$[5]',fence BIGINT UNSIGNED PATH '$[6]'))u "

struct joint_row {
    char sku[IDENTIFIER_SIZE];
    unsigned long sku_length;
    uint32_t segment, round, units, settings_version;
    uint64_t fence, settled;
};

struct stock_joint {
    struct bulk bulk;
    struct joint_row rows[LEDGER_SEGMENTS_MAX];
};

struct stock_joint *stock_joint_open(void)
{
    struct stock_joint *joint = calloc(1, sizeof *joint);
    if (!joint)
        abort();
    return joint;
}

void stock_joint_close(struct stock_joint **joint)
{
    if (*joint)
        bulk_close(&(*joint)->bulk);
    free(*joint);
    *joint = NULL;
}

bool stock_update_fenced(const struct ledger_stock_update *update)
{
    return update->guard == LEDGER_CHAIN || update->guard == LEDGER_FENCED;
}

static void text_alone(struct sql_text *sql, const struct ledger_stock_update *update)
{
    sql_printf(sql, "UPDATE stock_segment SET sold=sold+%u", update->units);
    if (stock_update_fenced(update))
        sql_printf(sql, ",fence=%llu", (unsigned long long)update->fence);
    else if (update->guard == LEDGER_UNFENCED)
        sql_printf(sql, ",fence=fence+1");
    sql_printf(sql, " WHERE sku=");
    sql_identifier(sql, update->sku);
    sql_printf(sql, " AND segment=%u AND round=%u AND settings_version=%u", update->segment,
               update->round, update->settings_version);
    if (update->guard == LEDGER_CHAIN || update->guard == LEDGER_EPOCH)
        sql_printf(sql, " AND fence=%llu", (unsigned long long)update->settled);
    if (stock_update_fenced(update))
        sql_printf(sql, " AND fence<%llu", (unsigned long long)update->fence);
    sql_printf(sql, " AND sold+%u<=capacity;", update->units);
}

static void text_rows(struct sql_text *sql, const struct ledger_stock_update *updates, size_t count)
{
    sql_printf(sql, "JSON_TABLE('[");
    for (size_t i = 0; i < count; i++) {
        sql_printf(sql, i == 0 ? "[\"" : ",[\"");
        sql_bare_identifier(sql, updates[i].sku);
        sql_printf(sql, "\",%u,%u,%u,%u,%llu,%llu]", updates[i].segment, updates[i].round,
                   updates[i].settings_version, updates[i].units,
                   (unsigned long long)updates[i].settled, (unsigned long long)updates[i].fence);
    }
    sql_printf(sql, "]" UPDATES_AS_ROWS);
}

static void text_joint(struct sql_text *sql, const struct ledger_stock_update *updates,
                       size_t count)
{
    sql_printf(sql, "UPDATE ");
    text_rows(sql, updates, count);
    sql_printf(sql, "STRAIGHT_JOIN stock_segment g FORCE INDEX(PRIMARY)"
                    "ON g.sku=u.sku AND g.segment=u.segment "
                    "SET g.sold=g.sold+u.units,g.fence=u.fence "
                    "WHERE g.round=u.round AND g.settings_version=u.settings_version AND "
                    "g.fence=u.settled AND g.fence<u.fence AND g.sold+u.units<=g.capacity;");
}

bool stock_update_joint(const struct ledger_stock_update *updates, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (updates[i].guard != LEDGER_CHAIN)
            return false;
    return count > UPDATES_ALONE_MAX;
}

void stock_update_text(struct sql_text *sql, const struct ledger_stock_update *updates,
                       size_t count)
{
    assert(!stock_update_joint(updates, count));
    for (size_t i = 0; i < count; i++)
        text_alone(sql, &updates[i]);
}

enum db_result stock_update_check(const struct db *db, struct ledger_stock_update *updates,
                                  size_t count)
{
    enum db_result result = DB_OK;
    for (size_t i = 0; i < count; i++) {
        updates[i].refused = db_affected(db, i) != 1;
        if (updates[i].refused)
            result = DB_NO;
    }
    return result;
}

static void fill_row(struct joint_row *row, const struct ledger_stock_update *update)
{
    row->sku_length = (unsigned long)strlen(update->sku);
    assert(row->sku_length < sizeof row->sku);
    memcpy(row->sku, update->sku, row->sku_length);
    row->segment = update->segment;
    row->round = update->round;
    row->units = update->units;
    row->settings_version = update->settings_version;
    row->fence = update->fence;
    row->settled = update->settled;
}

/* In the order of the placeholders in joint_update. The row that would be inserted has as much
 * capacity as is sold, or the table would refuse it before it sees that the row is there. */
static void bind_row(struct joint_row *row, MYSQL_BIND bind[JOINT_COLUMNS])
{
    bind[0] = bulk_text(row->sku, &row->sku_length);
    bind[1] = bulk_number(MYSQL_TYPE_LONG, &row->segment);
    bind[2] = bulk_number(MYSQL_TYPE_LONG, &row->round);
    bind[3] = bind[4] = bulk_number(MYSQL_TYPE_LONG, &row->units);
    bind[5] = bulk_number(MYSQL_TYPE_LONGLONG, &row->fence);
    bind[6] = bulk_number(MYSQL_TYPE_LONG, &row->settings_version);
    bind[7] = bind[8] = bulk_number(MYSQL_TYPE_LONGLONG, &row->settled);
}

/* Of a refusal by the table itself nothing more is known than of one by the guard. */
static enum db_result run_bulk(struct stock_joint *joint, struct db *db,
                               const struct ledger_stock_update *updates, size_t count,
                               bool *made_out)
{
    MYSQL_BIND binds[JOINT_COLUMNS];
    uint64_t affected = 0;
    for (size_t i = 0; i < count; i++)
        fill_row(&joint->rows[i], &updates[i]);
    bind_row(&joint->rows[0], binds);
    enum db_result result = bulk_execute(&joint->bulk, db, joint_update, binds,
                                         sizeof joint->rows[0], count, &affected);
    *made_out = result == DB_OK && affected == 2 * count;
    return result == DB_CHECK ? DB_OK : result;
}

static enum db_result run_text(struct db *db, const struct ledger_stock_update *updates,
                               size_t count, bool *made_out)
{
    struct sql_text sql = {0};
    text_joint(&sql, updates, count);
    enum db_result result = db_query(db, sql.text, sql.length);
    *made_out = result == DB_OK && db_affected(db, 0) == count;
    sql_free(&sql);
    return result;
}

/* A joint statement does not tell which of its updates were refused, so all of them count as: then
 * their segments are recovered, which is rare and costs less than asking one by one. */
enum db_result stock_joint_run(struct stock_joint *joint, struct db *db, bool bulk,
                               struct ledger_stock_update *updates, size_t count)
{
    bool made = false;
    assert(stock_update_joint(updates, count) && count <= LEDGER_SEGMENTS_MAX);
    enum db_result result =
        bulk ? run_bulk(joint, db, updates, count, &made) : run_text(db, updates, count, &made);
    for (size_t i = 0; i < count; i++)
        updates[i].refused = result == DB_OK && !made;
    return result == DB_OK && !made ? DB_NO : result;
}
