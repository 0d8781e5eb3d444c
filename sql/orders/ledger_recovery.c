/* Settles unknown commits, reads the rows that a segment is counted again from, and makes other
 * clients' commits durable. */
#include "sql/orders/orders.h"

#include <assert.h>

#include "sql/ledger/ledger_query.h"

/* ---- what is visible made durable ---- */

/* A row that is deleted in the same transaction: nobody sees it, and connections do not meet in it,
 * because its key is a text by which the server finds it alone. No user has an empty id. */
#define KEY "CONVERT(CONNECTION_ID()USING ascii)"

const char ledger_confirm_text[] =
    "INSERT INTO order_key(user_id,idempotency_key,order_id)VALUES(''," KEY ",0);"
    "DELETE FROM order_key WHERE user_id='' AND idempotency_key=" KEY;

enum ledger_result ledger_confirm(struct ledger *ledger, uint64_t connection)
{
    struct db_run run = {0};
    while (db_run(ledger->db, &run))
        run.result = ledger_do(ledger, "%-s", ledger_confirm_text);
    bool same = ledger_connection(ledger) == connection;
    return run.result == DB_OK && !same ? LEDGER_FAILED : ledger_from_db(run.result);
}

/* ---- unknown commits and segments ---- */

/* Waits for a transaction that holds the row; later updates with an older fence are refused. */
static void text_raise(struct sql_text *sql, const char *sku, uint32_t segment, uint64_t fence)
{
    sql_printf(sql, "UPDATE stock_segment SET fence=%ju WHERE sku=%s AND segment=%u AND fence<%ju;",
               fence, sku, segment, fence);
}

/* why_a_write: the question is a change of a row that the old transaction has changed.
 *
 *   One server. The old transaction holds the row from its update to its end, so the change waits
 *   for it. If it did not begin, it meets a greater fence and is refused.
 *
 *   A replica that was promoted. The old transaction is there or it is not: semi-synchronous
 *   replication answers no commit that the replica does not have, and the operator lets the replica
 *   apply all that it got before it takes writes. What the replica never got was answered to
 *   nobody; it ends with the old primary's data, which must not come back. The raised fence refuses
 *   any update still under way that was made for the old primary.
 *
 *   Galera. Only its own node knows a lock, so a look or a lock says nothing of a transaction at
 *   another node. A change is certified against all others: if the old transaction came first in
 *   the order of the cluster and this node has not applied it yet, the change is refused as a
 *   deadlock, and the question is asked again; if it comes later, it is refused. A change of no row
 *   is not certified and promises nothing: but then a certified change had raised the fence this
 *   far before, and all that came before that one can be seen here, as nodes commit in the
 *   cluster's order. */
enum ledger_result ledger_resolve(struct ledger *ledger, const struct ledger_stock_update *update,
                                  const struct ledger_order *order)
{
    struct sql_text *sql = &ledger->sql;
    sql_clear(sql);
    if (ledger_update_fenced(update))
        text_raise(sql, update->sku, update->segment, update->fence);
    else /* an update that relies on the fence read before is refused */
        sql_printf(sql, "UPDATE stock_segment SET fence=fence+1 WHERE sku=%s AND segment=%u;",
                   update->sku, update->segment);
    /* The row of an order that was to be paid does not tell whose commit has paid it. */
    if (order->payment_ref)
        return ledger_read(ledger) == DB_OK ? LEDGER_NO : LEDGER_FAILED;
    /* After the wait, so that the SELECT sees what the old transaction committed. One order answers
     * for all orders of the transaction, which is atomic. */
    bool keyed = order->key && order->key[0] != '\0';
    sql_printf(sql,
               "SELECT order_id FROM orders WHERE order_id=%ju AND round=%u AND sku=%s "
               "AND user_id=%s AND idempotency_key<=>%s",
               order->order_id, order->round, order->sku, order->user_id,
               keyed ? order->key : NULL);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    if (!db_row(ledger->db))
        return LEDGER_NO;
    uint64_t connection = ledger_connection(ledger);
    /* The old transaction set the fence itself, so this one has written nothing yet. */
    return ledger_confirm(ledger, connection) == LEDGER_OK ? LEDGER_OK : LEDGER_FAILED;
}

/* Lists the places of the segments by their numbers, the order in which every transaction locks
 * their rows, which prevents deadlocks. By insertion: most lists are sorted already, or nearly. */
static void segments_order(const struct ledger_segment *segments, size_t count,
                           uint16_t places_out[LEDGER_SEGMENTS_MAX])
{
    for (size_t i = 0; i < count; i++) {
        size_t j = i;
        for (; j > 0 && segments[i].segment < segments[places_out[j - 1]].segment; j--)
            places_out[j] = places_out[j - 1];
        places_out[j] = (uint16_t)i;
    }
}

static struct ledger_segment *segment_find(struct ledger_segment *segments, size_t count,
                                           uint32_t segment)
{
    for (size_t i = 0; i < count; i++)
        if (segments[i].segment == segment)
            return &segments[i];
    return NULL;
}

/* Runs in a transaction, so that no update comes between the raised fences and the rows read. The
 * text stays in ledger->sql, so a repeat after a deadlock sends the same statements. */
static enum db_result recover(struct ledger *ledger, const char *sku,
                              struct ledger_segment *segments, size_t count)
{
    enum db_result result = ledger_query(ledger);
    if (result != DB_OK)
        return result;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        struct ledger_segment *segment = segment_find(segments, count, ledger_u32(row[0]));
        if (segment) /* a damaged row counts as missing */
            ledger_segment_read(ledger, sku, segment, row, false);
    }
    return DB_OK;
}

enum ledger_result ledger_recover(struct ledger *ledger, const char *sku,
                                  struct ledger_segment *segments, size_t count)
{
    assert(count > 0 && count <= LEDGER_SEGMENTS_MAX);
    struct sql_text *sql = &ledger->sql;
    sql_clear(sql);
    uint16_t places[LEDGER_SEGMENTS_MAX];
    segments_order(segments, count, places);
    for (size_t i = 0; i < count; i++)
        text_raise(sql, sku, segments[places[i]].segment, segments[places[i]].fence);
    sql_printf(sql, LEDGER_SEGMENTS_SELECT, sku);
    for (size_t i = 0; i < count; i++) {
        sql_printf(sql, i == 0 ? " AND segment IN(%u" : ",%u", segments[i].segment);
        segments[i].round = 0; /* stays 0 where the ledger has no such row */
    }
    sql_append(sql, ")", 1);
    struct db_run run = {0};
    while (db_run(ledger->db, &run))
        run.result = recover(ledger, sku, segments, count);
    return ledger_from_db(run.result);
}
