/* What became of an unknown commit, the rows that a segment is counted again from, and what others
 * have committed made durable. */
#include "sql/orders/orders.h"

#include <assert.h>

#include "sql/ledger/ledger_query.h"
#include "sql/orders/stock_update.h"

/* ---- what is visible made durable ---- */

/* A row that is gone again when the transaction ends: nobody sees it, and connections do not meet
 * in it, as its key is a text, by which the server finds it alone. No user has an empty id. */
#define KEY "CONVERT(CONNECTION_ID()USING ascii)"

void ledger_confirm_text(struct sql_text *sql)
{
    sql_printf(sql, "INSERT INTO order_key(user_id,idempotency_key,order_id)"
                    "VALUES(''," KEY
                    ",0);DELETE FROM order_key WHERE user_id='' AND idempotency_key=" KEY);
}

static enum db_result confirm_body(struct db *db, void *context)
{
    struct ledger *ledger = context;
    (void)db;
    sql_clear(&ledger->sql);
    ledger_confirm_text(&ledger->sql);
    return ledger_query(ledger);
}

enum ledger_result ledger_confirm(struct ledger *ledger, uint64_t connection)
{
    enum ledger_result result = ledger_from_db(db_run(ledger->db, confirm_body, ledger));
    bool same = ledger_connection(ledger) == connection;
    return result == LEDGER_OK && !same ? LEDGER_FAILED : result;
}

/* ---- unknown commits and segments ---- */

/* Waits for a transaction that holds the row, and from then on no update with an older fence is
 * accepted. */
static void text_raise(struct sql_text *sql, const char *sku, uint32_t segment, uint64_t fence)
{
    sql_printf(sql, "UPDATE stock_segment SET fence=%llu WHERE sku=", (unsigned long long)fence);
    sql_identifier(sql, sku);
    sql_printf(sql, " AND segment=%u AND fence<%llu;", segment, (unsigned long long)fence);
}

/* The same where the update has no fence of its own: whoever has read the row's fence before meets
 * another one. */
static void text_move_on(struct sql_text *sql, const char *sku, uint32_t segment)
{
    sql_text_identifier(sql, "UPDATE stock_segment SET fence=fence+1 WHERE sku=", sku);
    sql_printf(sql, " AND segment=%u;", segment);
}

static void text_order(struct sql_text *sql, const struct ledger_order *order)
{
    sql_printf(sql, "SELECT order_id FROM orders WHERE order_id=%llu AND round=%u AND sku=",
               (unsigned long long)order->order_id, order->round);
    sql_identifier(sql, order->sku);
    sql_printf(sql, " AND user_id=");
    sql_user_id(sql, order->user_id);
    if (order->key && order->key[0] != '\0') {
        sql_text_identifier(sql, " AND idempotency_key=", order->key);
    } else {
        sql_printf(sql, " AND idempotency_key IS NULL");
    }
}

/* why_a_write: the question is a change of a row that the old transaction has changed.
 *
 *   One server. The old transaction holds the row from its update to its end, so the change waits
 *   for it. If it did not begin, it meets a greater fence and is refused.
 *
 *   A replica that was promoted. The old transaction is there or it is not: semi-synchronous
 *   replication answers no commit that the replica does not have, and the operator lets the replica
 *   apply all that it got before it takes writes. What the old primary wrote and the replica never
 *   got was answered to nobody; it ends with the old primary's data, which must not come back. The
 *   raised fence refuses whoever still carries an update that was made for the old primary.
 *
 *   Galera. A lock is known to its node alone, and to look or to lock there says nothing of a
 *   transaction at another node. A change is certified against all others: if the old transaction
 *   came first in the order of the cluster and this node has not applied it yet, then the change is
 *   refused as a deadlock, and the question is asked again; if it comes later, it is refused. A
 *   change of no row is none, and makes no promise: then the fence was this far before, by a change
 *   that was certified, and all that came before that one can be seen here, as nodes commit in the
 *   cluster's order. */
enum ledger_result ledger_resolve(struct ledger *ledger, const struct ledger_stock_update *update,
                                  const struct ledger_order *order)
{
    sql_clear(&ledger->sql);
    if (stock_update_fenced(update))
        text_raise(&ledger->sql, update->sku, update->segment, update->fence);
    else
        text_move_on(&ledger->sql, update->sku, update->segment);
    /* After the wait, so that the SELECT sees what the old transaction committed. One order answers
     * for all orders of the transaction, which is atomic. */
    text_order(&ledger->sql, order);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    if (!db_row(ledger->db))
        return LEDGER_NO;
    uint64_t connection = ledger_connection(ledger);
    /* The old transaction had set the fence itself, so nothing has been written by now. */
    return ledger_confirm(ledger, connection) == LEDGER_OK ? LEDGER_OK : LEDGER_FAILED;
}

struct recovery {
    struct ledger *ledger;
    const char *sku;
    struct ledger_segment *segments;
    size_t count;
};

static struct ledger_segment *segment_find(struct recovery *recovery, uint32_t segment)
{
    for (size_t i = 0; i < recovery->count; i++)
        if (recovery->segments[i].segment == segment)
            return &recovery->segments[i];
    return NULL;
}

/* In a transaction, so that no other update comes between the raised fences and the rows read. The
 * text stays in ledger->sql, so a repeat after a deadlock sends the same statements. */
static enum db_result recover_body(struct db *db, void *context)
{
    struct recovery *recovery = context;
    enum db_result result = ledger_query(recovery->ledger);
    if (result != DB_OK)
        return result;
    for (char **row = db_row(db); row; row = db_row(db)) {
        struct ledger_segment *segment = segment_find(recovery, ledger_u32(row[0]));
        if (segment) /* a damaged row is taken for none */
            ledger_segment_read(recovery->ledger, recovery->sku, segment, row);
    }
    return DB_OK;
}

enum ledger_result ledger_recover(struct ledger *ledger, const char *sku,
                                  struct ledger_segment *segments, size_t count)
{
    assert(count > 0 && count <= LEDGER_SEGMENTS_MAX);
    struct recovery recovery = {ledger, sku, segments, count};
    struct sql_text *sql = &ledger->sql;
    sql_clear(sql);
    uint16_t places[LEDGER_SEGMENTS_MAX];
    ledger_segments_order(segments, count, places);
    for (size_t i = 0; i < count; i++)
        text_raise(sql, sku, segments[places[i]].segment, segments[places[i]].fence);
    ledger_segments_text(sql, sku);
    for (size_t i = 0; i < count; i++) {
        sql_printf(sql, i == 0 ? " AND segment IN(%u" : ",%u", segments[i].segment);
        segments[i].round = 0; /* stays 0 where the ledger has no such row */
    }
    sql_append(sql, ")", 1);
    return ledger_from_db(db_run(ledger->db, recover_body, &recovery));
}
