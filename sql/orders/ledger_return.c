/* Cancels, expires and refunds orders, or parts of them: changes their statuses, and makes their
 * units available again.
 *
 *   lock the segments' rows ─► lock the orders that may change, share their units out
 *     ─► segments: sold -= n, fence = F · statuses ─► quotas ─► commit
 *
 * why_any_segment: a sale's orders hold the sum over its segments. One segment's `sold` is only a
 * share of that sum, so units may be taken off any of them.
 *
 * why_skip_locked: one order whose payment hangs, or one segment that an operator's transaction
 * holds, must not keep hundreds of returns waiting. And a transaction that waits for none of these
 * rows takes part in no deadlock over them. */
#include "sql/orders/orders.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/events/event_line.h"
#include "sql/ledger/ledger_query.h"
#include "sql/orders/user_quota.h"

struct returning {
    struct ledger *ledger;
    struct ledger_return *returned;
    struct user_quota_return moved[LEDGER_RETURNS_MAX]; /* orders whose units return, by user */
    size_t moved_count;
    size_t changed_count; /* orders that change, of any round */
    /* At the place of a sale's first segment: the greatest id counted for its users. */
    uint64_t counted_to[LEDGER_SEGMENTS_MAX];
};

/* ---- the segments ---- */

/* A segment by its sku and number. */
static int compare_place(const void *key, const void *element)
{
    const struct ledger_return_segment *wanted = key, *segment = element;
    int order = strcmp(wanted->sku, segment->sku);
    return order != 0 ? order
                      : (wanted->segment > segment->segment) - (wanted->segment < segment->segment);
}

static enum db_result lock_segments(struct returning *returning)
{
    struct ledger_return *returned = returning->returned;
    struct ledger *ledger = returning->ledger;
    struct sql_text *sql = &ledger->sql;
    for (size_t i = 0; i < returned->segment_count; i++) {
        returned->segments[i].row = (struct ledger_segment){0};
        returned->segments[i].returned = 0;
    }
    if (returned->segment_count == 0)
        return DB_OK;
    sql_begin(sql, "SELECT segment,round,capacity,sold,fence,sku FROM stock_segment "
                   "FORCE INDEX(PRIMARY)WHERE(sku,segment)IN(");
    for (size_t i = 0; i < returned->segment_count; i++)
        sql_printf(sql, i == 0 ? "(%s,%u)" : ",(%s,%u)", returned->segments[i].sku,
                   returned->segments[i].segment);
    sql_printf(sql, ")FOR UPDATE SKIP LOCKED");
    enum db_result result = ledger_query(ledger);
    for (char **row = result == DB_OK ? db_row(ledger->db) : NULL; row; row = db_row(ledger->db)) {
        struct ledger_return_segment key = {.sku = row[5], .segment = ledger_u32(row[0])};
        struct ledger_return_segment *segment =
            row[5] ? bsearch(&key, returned->segments, returned->segment_count, sizeof key,
                             compare_place)
                   : NULL;
        if (segment) /* a damaged row counts as missing */
            ledger_segment_read(ledger, segment->sku, &segment->row, row, false);
    }
    return result;
}

static bool is_usable(const struct ledger_return_segment *segment, uint32_t round)
{
    return segment->row.round == round && segment->row.fence < segment->fence;
}

/* Returns the first segment of a sale, and the number of its segments from there on. */
static struct ledger_return_segment *segments_of(const struct ledger_return *returned,
                                                 const char *sku, size_t *count_out)
{
    size_t low = 0, high = returned->segment_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(returned->segments[middle].sku, sku) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (end < returned->segment_count && strcmp(returned->segments[end].sku, sku) == 0)
        end++;
    *count_out = end - low;
    return &returned->segments[low];
}

/* ---- the orders ---- */

/* Locks the orders that may change. They come sorted by user, so that transactions that meet in
 * several quotas do not deadlock. */
static enum db_result lock_orders(struct returning *returning)
{
    const struct ledger_return *returned = returning->returned;
    struct sql_text *sql = &returning->ledger->sql;
    sql_begin(sql, "SELECT o.order_id,o.sku,o.round,o.user_id,o.qty FROM orders o "
                   "FORCE INDEX(PRIMARY)WHERE o.order_id IN(");
    for (size_t i = 0; i < returned->order_count; i++)
        sql_printf(sql, i == 0 ? "%ju" : ",%ju", returned->orders[i].order_id);
    sql_printf(sql, ")AND %-s ORDER BY o.user_id,o.sku,o.order_id FOR UPDATE SKIP LOCKED",
               ledger_status_condition(returned->to));
    return ledger_query(returning->ledger);
}

/* Takes units of a sale off as many of its segments as it needs. False, with nothing taken, when
 * they have not sold as many; `damaged_out`: nor has the whole sale. */
static bool take_off(struct ledger_return_segment *segments, size_t count, uint32_t round,
                     uint32_t units, bool *damaged_out)
{
    size_t valid = 0;
    uint64_t sold = 0, left_sold = 0;
    for (size_t i = 0; i < count; i++)
        if (is_usable(&segments[i], round)) {
            valid++;
            left_sold += segments[i].row.sold;
            sold += segments[i].row.sold + segments[i].returned;
        }
    *damaged_out = count > 0 && valid == segments[0].segments && units > sold;
    if (units > left_sold)
        return false;
    for (size_t i = 0; i < count && units > 0; i++) {
        if (!is_usable(&segments[i], round))
            continue;
        uint32_t part = units < segments[i].row.sold ? units : segments[i].row.sold;
        segments[i].row.sold -= part;
        segments[i].returned += part;
        units -= part;
    }
    return true;
}

static void read_order(struct returning *returning, char **row)
{
    const struct ledger_return *returned = returning->returned;
    struct ledger_return_order key = {.order_id = ledger_u64(row[0])};
    struct ledger_return_order *order = bsearch(&key, returned->orders, returned->order_count,
                                                sizeof key, ledger_return_order_compare);
    if (!order || order->moved)
        return;
    if (!ledger_order_valid(row)) {
        ledger_note_damage(returning->ledger,
                           "orders: order_id %s, sku '%s', round %s, user_id '%s', qty %s", row[0],
                           row[1], row[2], row[3], row[4]);
        return;
    }
    uint32_t qty = ledger_u32(row[4]), round = ledger_u32(row[2]);
    if (order->keep >= qty)
        return;
    size_t given = 0;
    uint32_t units = order->unreturned ? 0 : qty - order->keep;
    struct ledger_return_segment *segments = segments_of(returned, row[1], &given);
    order->moved = order->round_over || take_off(segments, given, round, units, &order->damaged);
    if (order->damaged)
        ledger_note_damage(returning->ledger,
                           "orders: order_id %s, sku '%s', has more units than its sale has sold",
                           row[0], row[1]);
    order->unmet = !order->moved && given > 0;
    returning->changed_count += order->moved;
    if (!order->moved || order->round_over || units == 0)
        return;
    struct user_quota_return *moved = &returning->moved[returning->moved_count++];
    *moved = (struct user_quota_return){
        .order_id = key.order_id, .round = round, .qty = units, .stays = order->keep > 0};
    ledger_identifier(moved->sku, row[1]);
    ledger_user_id(moved->user_id, row[3]);
}

static void read_orders(struct returning *returning)
{
    struct ledger_return *returned = returning->returned;
    returning->moved_count = returning->changed_count = 0;
    for (size_t i = 0; i < returned->order_count; i++)
        returned->orders[i].moved = returned->orders[i].unmet = returned->orders[i].damaged = false;
    for (char **row = db_row(returning->ledger->db); row; row = db_row(returning->ledger->db))
        read_order(returning, row);
}

/* ---- the changes ---- */

/* Returns the number of statements appended. The rows are locked, so their guards always hold; they
 * are for a server whose locks work differently. */
static size_t text_segments(struct sql_text *sql, struct ledger_return *returned)
{
    size_t count = 0;
    for (size_t i = 0; i < returned->segment_count; i++) {
        struct ledger_return_segment *segment = &returned->segments[i];
        if (segment->returned == 0)
            continue;
        segment->row.fence = segment->fence;
        sql_printf(sql,
                   "UPDATE stock_segment SET sold=sold-%u,fence=%ju WHERE sku=%s AND segment=%u "
                   "AND round=%u AND fence<%ju AND sold>=%u;",
                   segment->returned, segment->fence, segment->sku, segment->segment,
                   segment->row.round, segment->fence, segment->returned);
        count++;
    }
    return count;
}

/* Appends a statement for the orders that end, with or without their units. */
static void text_ends(struct sql_text *sql, const struct ledger_return *returned, bool unreturned)
{
    bool any = false;
    for (size_t i = 0; i < returned->order_count; i++) {
        const struct ledger_return_order *order = &returned->orders[i];
        if (!order->moved || order->keep > 0 || order->unreturned != unreturned)
            continue;
        if (!any)
            sql_printf(sql,
                       "UPDATE orders FORCE INDEX(PRIMARY)SET status=%s," LEDGER_VERSION_NEXT
                       "%-s WHERE order_id IN",
                       ledger_status_name(returned->to),
                       unreturned ? ",unreturned=COALESCE(unreturned,0)+qty" : "");
        sql_printf(sql, any ? ",%ju" : "(%ju", order->order_id);
        any = true;
    }
    if (any)
        sql_append(sql, ");", 2);
}

/* Each order keeps units of its own number. Assignments are made from left to right. */
static void text_parts(struct sql_text *sql, const struct ledger_return *returned)
{
    for (size_t i = 0; i < returned->order_count; i++) {
        const struct ledger_return_order *order = &returned->orders[i];
        if (order->moved && order->keep > 0)
            sql_printf(sql,
                       "UPDATE orders SET ordered=COALESCE(ordered,qty)," LEDGER_VERSION_NEXT
                       ",unreturned=IF(%d,COALESCE(unreturned,0)+qty-%u,unreturned),qty=%u "
                       "WHERE order_id=%ju;",
                       order->unreturned, order->keep, order->keep, order->order_id);
    }
}

/* An order has one payment at most that it has taken. */
static void text_payments(struct sql_text *sql, const struct ledger_return *returned)
{
    bool any = false;
    for (size_t i = 0; i < returned->order_count; i++) {
        const struct ledger_return_order *order = &returned->orders[i];
        if (!order->moved || order->keep > 0 || returned->to != LEDGER_REFUNDED)
            continue;
        sql_printf(sql,
                   any ? ",%ju"
                       : "UPDATE payment FORCE INDEX(PRIMARY)SET state='refunded',"
                         "refunded_at=UTC_TIMESTAMP(3)WHERE state='taken' AND "
                         "order_id IN(%ju",
                   order->order_id);
        any = true;
    }
    if (any)
        sql_append(sql, ");", 2);
}

/* Appends the events of the orders that end, or keep a part of their units. */
static void text_events(struct ledger *ledger, const struct ledger_return *returned, bool parts)
{
    static const enum ledger_event_type ends[LEDGER_STATUSES] = {
        [LEDGER_CANCELLED] = LEDGER_EVENT_CANCELLED,
        [LEDGER_EXPIRED] = LEDGER_EVENT_EXPIRED,
        [LEDGER_REFUNDED] = LEDGER_EVENT_REFUNDED,
    };
    struct event_list events = {ledger, parts ? LEDGER_EVENT_CHANGED : ends[returned->to], false,
                                0};
    for (size_t i = 0; i < returned->order_count; i++) {
        const struct ledger_return_order *order = &returned->orders[i];
        if (order->moved && (order->keep > 0) == parts)
            event_list_add(&events, order->order_id, NULL);
    }
    event_list_end(&events);
}

/* Lists the sales whose units return, each with round or number of its first changed segment. */
static void text_sales(struct sql_text *sql, const struct ledger_return *returned, bool rounds)
{
    const char *sku = NULL;
    for (size_t i = 0; i < returned->segment_count; i++) {
        const struct ledger_return_segment *segment = &returned->segments[i];
        if (segment->returned == 0 || (sku && strcmp(sku, segment->sku) == 0))
            continue;
        sql_printf(sql, sku ? ",(%s,%u)" : "((%s,%u)", segment->sku,
                   rounds ? segment->row.round : segment->segment);
        sku = segment->sku;
    }
    sql_append(sql, ")", 1);
}

/* Asks which sales count their users' units, or have begun to, and up to which order id (NULL: all
 * orders). The first statement waits for the piece that is being counted and keeps the next from
 * beginning. Both run while the segments' rows are locked, because a sale that begins to count
 * changes all of them first. */
static void text_counted(struct sql_text *sql, const struct ledger_return *returned)
{
    sql_printf(sql, "SELECT counted_to FROM quota_count WHERE(sku,round)IN");
    text_sales(sql, returned, true);
    sql_printf(
        sql,
        "LOCK IN SHARE MODE;SELECT g.sku,"
        "(EXISTS(SELECT 1 FROM user_quota b WHERE b.sku=g.sku AND b.round=g.round)OR "
        "EXISTS(SELECT 1 FROM quota_count c WHERE c.sku=g.sku AND c.round=g.round)),"
        "(SELECT COALESCE(counted_to,0)FROM quota_count c WHERE c.sku=g.sku AND c.round=g.round)"
        " FROM stock_segment g FORCE INDEX(PRIMARY)WHERE(sku,segment)IN");
    text_sales(sql, returned, false);
}

static void read_counted(struct returning *returning)
{
    const struct ledger_return *returned = returning->returned;
    struct db *db = returning->ledger->db;
    size_t count = 0;
    memset(returning->counted_to, 0, returned->segment_count * sizeof returning->counted_to[0]);
    for (char **row = db_row(db); row; row = db_row(db)) {
        struct ledger_return_segment *first = segments_of(returned, row[0] ? row[0] : "", &count);
        if (count > 0 && ledger_u32(row[1]) != 0)
            returning->counted_to[first - returned->segments] =
                row[2] ? ledger_u64(row[2]) : UINT64_MAX;
    }
}

static enum db_result return_to_quotas(struct returning *returning)
{
    const struct ledger_return *returned = returning->returned;
    struct sql_text *sql = &returning->ledger->sql;
    size_t kept = 0, count = 0;
    for (size_t i = 0; i < returning->moved_count; i++) {
        const struct user_quota_return *moved = &returning->moved[i];
        size_t first = (size_t)(segments_of(returned, moved->sku, &count) - returned->segments);
        if (moved->order_id <= returning->counted_to[first])
            returning->moved[kept++] = *moved;
    }
    sql_clear(sql);
    if (kept == 0)
        return DB_OK;
    user_quota_text_return(sql, returning->moved, kept);
    return ledger_query(returning->ledger);
}

/* Returns units only of orders whose status changes here, under the locks of their rows, which
 * makes a repeat harmless. */
static enum db_result return_orders(struct returning *returning)
{
    struct sql_text *sql = &returning->ledger->sql;
    enum db_result result = lock_segments(returning);
    if (result == DB_OK)
        result = lock_orders(returning);
    if (result != DB_OK)
        return result;
    read_orders(returning);
    if (returning->changed_count == 0)
        return DB_OK;
    sql_clear(sql);
    size_t guarded = text_segments(sql, returning->returned);
    text_ends(sql, returning->returned, false);
    text_ends(sql, returning->returned, true);
    text_parts(sql, returning->returned);
    text_payments(sql, returning->returned);
    text_events(returning->ledger, returning->returned, false);
    text_events(returning->ledger, returning->returned, true);
    if (returning->moved_count > 0)
        text_counted(sql, returning->returned);
    result = ledger_query(returning->ledger);
    for (size_t i = 0; i < guarded && result == DB_OK; i++)
        if (db_affected(returning->ledger->db, i) != 1)
            result = DB_NO;
    if (result != DB_OK || returning->moved_count == 0)
        return result;
    read_counted(returning);
    return return_to_quotas(returning);
}

enum ledger_result ledger_return(struct ledger *ledger, struct ledger_return *returned)
{
    assert(returned->order_count > 0 && returned->order_count <= LEDGER_RETURNS_MAX);
    assert(returned->segment_count <= LEDGER_SEGMENTS_MAX);
    assert(returned->to == LEDGER_CANCELLED || returned->to == LEDGER_EXPIRED ||
           returned->to == LEDGER_REFUNDED);
    struct returning returning;
    returning.ledger = ledger;
    returning.returned = returned;
    struct db_run run = {0};
    while (db_run(ledger->db, &run))
        run.result = return_orders(&returning);
    for (size_t i = 0; i < returned->order_count && run.result != DB_OK; i++)
        returned->orders[i].moved = false;
    return ledger_from_db(run.result);
}
