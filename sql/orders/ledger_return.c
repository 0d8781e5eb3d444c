/* Cancels, expires and refunds orders, or parts of them: changes their statuses, and makes their
 * units available again. Makes orders reserved again whose payment has failed.
 *
 *   lock the segments' rows ─► lock the orders that may change, share their units out
 *     ─► segments: sold -= n, fence = F · statuses ─► quotas ─► commit
 *
 * why_any_segment: a sale's orders hold the sum over its segments. One segment's `sold` is only a
 * share of that sum, so units may be taken off any of them.
 *
 * why_skip_locked: one order whose payment hangs, or one segment that an operator's transaction
 * holds, must not keep hundreds of returns waiting. And a transaction that waits for none of these
 * rows takes part in no deadlock over them.
 *
 * why_the_next_payment: a buyer who has paid twice has a payment that is due. When the other one
 * goes, that one pays the order. It is looked up by a locking read behind the order's lock, which
 * sees all that was told before; one that is being refunded just now is passed over. */
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

/* A payment of the order `o` that can take the place of the one that pays it. */
#define NEXT_PAYMENT                                                                               \
    "(SELECT p.payment_ref FROM payment p FORCE INDEX(PRIMARY)WHERE p.order_id=o.order_id AND "    \
    "p.state='refund_due' ORDER BY p.payment_ref LIMIT 1 FOR UPDATE SKIP LOCKED)"

/* The payments of the orders change, too. */
static bool is_of_payments(const struct ledger_return *returned)
{
    return returned->to == LEDGER_REFUNDED || returned->to == LEDGER_RESERVED;
}

/* Locks the orders that may change. They come sorted by user, so that transactions that meet in
 * several quotas do not deadlock. */
static enum db_result lock_orders(struct returning *returning)
{
    const struct ledger_return *returned = returning->returned;
    struct sql_text *sql = &returning->ledger->sql;
    sql_begin(sql,
              "SELECT o.order_id,o.sku,o.round,o.user_id,o.qty,o.status='expired',%-s FROM orders "
              "o FORCE INDEX(PRIMARY)WHERE o.order_id IN(",
              is_of_payments(returned) ? NEXT_PAYMENT : "NULL");
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
    const char *next = order->keep == 0 && row[6] ? row[6] : "";
    if (!ledger_order_valid(row) ||
        (*next != '\0' && !user_id_copy(next, strlen(next), order->next_ref))) {
        ledger_note_damage(returning->ledger,
                           "orders: order_id %s, sku '%s', round %s, user_id '%s', qty %s, "
                           "payment_ref '%s'",
                           row[0], row[1], row[2], row[3], row[4], next);
        return;
    }
    uint32_t qty = ledger_u32(row[4]), round = ledger_u32(row[2]);
    bool expired = ledger_u32(row[5]) != 0; /* its units came back then */
    if (order->keep >= qty || (expired && order->keep > 0))
        return;
    size_t given = 0;
    bool none = order->unreturned || expired || *next != '\0' || returned->to == LEDGER_RESERVED;
    uint32_t units = none ? 0 : qty - order->keep;
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
    for (size_t i = 0; i < returned->order_count; i++) {
        returned->orders[i].moved = returned->orders[i].unmet = returned->orders[i].damaged = false;
        returned->orders[i].next_ref[0] = '\0';
    }
    for (char **row = db_row(returning->ledger->db); row; row = db_row(returning->ledger->db))
        read_order(returning, row);
}

/* ---- the changes ---- */

/* The sale's time to pay, from now on; NULL: it has none. */
#define TIME_TO_PAY                                                                                \
    ",expires_at=(SELECT UTC_TIMESTAMP(3)+INTERVAL s.pay_within_s SECOND FROM sale s "             \
    "WHERE s.sku=orders.sku)"

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

/* An order keeps its status. */
static bool stays(const struct ledger_return_order *order)
{
    return order->keep > 0 || order->next_ref[0] != '\0';
}

/* Appends a statement for the orders that end, with or without their units. */
static void text_ends(struct sql_text *sql, const struct ledger_return *returned, bool unreturned)
{
    bool any = false;
    for (size_t i = 0; i < returned->order_count; i++) {
        const struct ledger_return_order *order = &returned->orders[i];
        if (!order->moved || stays(order) || order->unreturned != unreturned)
            continue;
        if (!any)
            sql_printf(sql,
                       "UPDATE orders FORCE INDEX(PRIMARY)SET status=%s," LEDGER_VERSION_NEXT
                       "%-s%-s WHERE order_id IN",
                       ledger_status_name(returned->to),
                       unreturned ? ",unreturned=COALESCE(unreturned,0)+qty" : "",
                       returned->to == LEDGER_RESERVED ? TIME_TO_PAY : "");
        sql_printf(sql, any ? ",%ju" : "(%ju", order->order_id);
        any = true;
    }
    if (any)
        sql_append(sql, ");", 2);
}

/* Each order keeps units of its own number. Assignments are made from left to right. An order that
 * another payment pays has a new version, and an unpaid one may expire. */
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
        else if (order->moved && stays(order))
            sql_printf(sql,
                       "DELETE FROM refund_due WHERE order_id=%ju AND payment_ref=%s;"
                       "UPDATE orders SET " LEDGER_VERSION_NEXT " WHERE order_id=%ju;",
                       order->order_id, order->next_ref, order->order_id);
        else if (order->moved && returned->to == LEDGER_RESERVED) {
            sql_printf(sql,
                       "INSERT INTO unpaid_count(sku,count)SELECT sku,1 FROM orders WHERE "
                       "order_id=%ju ON DUPLICATE KEY UPDATE count=unpaid_count.count+1;",
                       order->order_id);
            ledger_due_text(sql, order->order_id);
        }
    }
}

/* Ends the payments that the callers name, if they still pay their orders, and lets others pay.
 * Returns the number of statements appended, each of which must change a row. */
static size_t text_payments(struct sql_text *sql, const struct ledger_return *returned)
{
    size_t count = 0;
    for (size_t i = 0; i < returned->order_count && is_of_payments(returned); i++) {
        const struct ledger_return_order *order = &returned->orders[i];
        if (!order->moved || order->keep > 0)
            continue;
        sql_printf(sql,
                   "UPDATE payment SET state=%-s WHERE order_id=%ju AND payment_ref=%s AND "
                   "state='taken';",
                   returned->to == LEDGER_RESERVED ? "'failed'"
                                                   : "'refunded',refunded_at=UTC_TIMESTAMP(3)",
                   order->order_id, order->payment_ref);
        if (stays(order))
            sql_printf(sql,
                       "UPDATE payment SET state='taken' WHERE order_id=%ju AND payment_ref=%s AND "
                       "state='refund_due';",
                       order->order_id, order->next_ref);
        count += 1 + stays(order);
    }
    return count;
}

/* Appends the events of the orders that get another status, or keep theirs. */
static void text_events(struct ledger *ledger, const struct ledger_return *returned, bool kept)
{
    static const enum ledger_event_type ends[LEDGER_STATUSES] = {
        [LEDGER_RESERVED] = LEDGER_EVENT_UNPAID,
        [LEDGER_CANCELLED] = LEDGER_EVENT_CANCELLED,
        [LEDGER_EXPIRED] = LEDGER_EVENT_EXPIRED,
        [LEDGER_REFUNDED] = LEDGER_EVENT_REFUNDED,
    };
    struct event_list events = {ledger, kept ? LEDGER_EVENT_CHANGED : ends[returned->to], kept, 0};
    for (size_t i = 0; i < returned->order_count; i++) {
        const struct ledger_return_order *order = &returned->orders[i];
        if (order->moved && stays(order) == kept)
            event_list_add(&events, order->order_id, order->payment_ref);
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
    guarded += text_payments(sql, returning->returned);
    text_ends(sql, returning->returned, false);
    text_ends(sql, returning->returned, true);
    text_parts(sql, returning->returned);
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
    static_assert(LEDGER_SEGMENTS_MAX + 2 * (int)LEDGER_ORDERS_MAX <= (int)DB_STATEMENTS_MAX,
                  "each has its count of rows");
    assert(!is_of_payments(returned) || returned->order_count <= LEDGER_ORDERS_MAX);
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
