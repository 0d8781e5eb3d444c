/* Units of cancelled and expired orders given back to their segments and users.
 *
 * why_left_out: a segment has sold at least the units of the orders that hold some of it. Where it
 * has sold fewer, the row of an order makes no sense, or the segment's does, and the ledger refuses
 * to return any of these orders. So the one that claims most is noted as damaged and left out. */
#include "sql/ledger_return.h"

#include <assert.h>
#include <string.h>

#include "sql/ledger_query.h"
#include "sql/user_quota.h"

static void text_ids(struct sql_text *sql, const uint64_t *ids, size_t count)
{
    assert(count > 0);
    for (size_t i = 0; i < count; i++) {
        sql_append(sql, i == 0 ? "(" : ",", 1);
        sql_number(sql, ids[i]);
    }
    sql_append(sql, ")", 1);
}

struct returning {
    struct ledger *ledger;
    struct ledger_return *returned;
    struct user_quota_return orders[LEDGER_RETURNS_MAX]; /* whose status may change, by user */
    bool counted;                                        /* the sale counts what each user has, */
    uint64_t counted_to;                                 /* in the orders up to this id */
    uint64_t units[LEDGER_SEGMENTS_MAX];
    struct {
        uint64_t order_id;
        uint32_t units;
    } greatest[LEDGER_SEGMENTS_MAX];      /* of the orders that have units of the segment */
    uint64_t fences[LEDGER_SEGMENTS_MAX]; /* the caller's; read_rows overwrites those it gave */
    uint64_t left_out[LEDGER_RETURNS_MAX];
    size_t left_out_count;
    uint64_t damaged_id; /* the next to be left out; 0: none */
};

static void text_segment_list(struct sql_text *sql, const struct ledger_return *returned)
{
    for (size_t i = 0; i < returned->segment_count; i++)
        sql_printf(sql, i == 0 ? " AND segment IN(%u" : ",%u", returned->segments[i].segment);
    sql_printf(sql, ")");
}

/* The caller has their locks in Redis: only what is none of the service's may hold them. */
static void text_hold_segments(struct sql_text *sql, const struct ledger_return *returned)
{
    if (returned->segment_count == 0)
        return;
    sql_printf(sql, "SELECT segment FROM stock_segment FORCE INDEX(PRIMARY)WHERE sku=");
    sql_identifier(sql, returned->sku);
    text_segment_list(sql, returned);
    sql_printf(sql, "FOR UPDATE NOWAIT;");
}

/* Locks the orders and finds the returnable ones, with the units that each has of each segment.
 * They come sorted by user, so that returns that meet in several quotas do not deadlock. */
static enum db_result find_returnable(struct returning *returning)
{
    const struct ledger_return *returned = returning->returned;
    struct sql_text *sql = &returning->ledger->sql;
    sql_clear(sql);
    if (returned->hurried)
        text_hold_segments(sql, returned);
    sql_printf(sql, "SELECT o.order_id,COALESCE(o.segment,a.segment),COALESCE(a.qty,o.qty),"
                    "o.user_id,o.qty FROM orders o FORCE INDEX(PRIMARY)"
                    "LEFT JOIN order_allocation a ON o.segment IS NULL AND "
                    "a.order_id=o.order_id WHERE o.order_id IN");
    text_ids(sql, returned->order_ids, returned->order_count);
    sql_printf(sql, " AND o.round=%u AND o.sku=", returned->round);
    sql_identifier(sql, returned->sku);
    sql_append(sql, " AND ", 5);
    ledger_status_text(sql, returned->to);
    sql_printf(sql, " ORDER BY o.user_id,o.order_id FOR UPDATE%s",
               returned->hurried ? " NOWAIT" : "");
    return ledger_query(returning->ledger);
}

/* False when the order has units of a segment that the caller does not hold. */
static bool add_units(struct returning *returning, uint64_t order_id, uint32_t segment,
                      uint32_t units)
{
    for (size_t i = 0; i < returning->returned->segment_count; i++)
        if (returning->returned->segments[i].segment == segment) {
            returning->units[i] += units;
            if (units > returning->greatest[i].units) {
                returning->greatest[i].order_id = order_id;
                returning->greatest[i].units = units;
            }
            return true;
        }
    return returning->returned->segment_count == 0;
}

static bool is_left_out(const struct returning *returning, uint64_t order_id)
{
    for (size_t i = 0; i < returning->left_out_count; i++)
        if (returning->left_out[i] == order_id)
            return true;
    return false;
}

/* Adds up the units per segment. An order that several segments filled comes in several rows, next
 * to each other. False when units belong to a segment that the caller does not hold. */
static bool read_returnable(struct returning *returning, struct db *db)
{
    struct ledger_return *returned = returning->returned;
    bool complete = true;
    returned->moved = 0;
    memset(returning->units, 0, sizeof returning->units);
    memset(returning->greatest, 0, sizeof returning->greatest);
    for (char **row = db_row(db); row; row = db_row(db)) {
        uint64_t id = ledger_u64(row[0]);
        if (!row[1] || !row[3] || !user_id_valid(row[3], strlen(row[3]))) {
            ledger_note_damage(returning->ledger, "orders: order_id %s, segment %s, user_id '%s'",
                               row[0], row[1] ? row[1] : "NULL", row[3]);
            continue;
        }
        if (is_left_out(returning, id))
            continue;
        if (returned->moved == 0 || returned->moved_ids[returned->moved - 1] != id) {
            struct user_quota_return *order = &returning->orders[returned->moved];
            ledger_user_id(order->user_id, row[3]);
            order->order_id = id;
            order->qty = ledger_u32(row[4]);
            returned->moved_ids[returned->moved++] = id;
        }
        complete = add_units(returning, id, ledger_u32(row[1]), ledger_u32(row[2])) && complete;
    }
    return complete;
}

/* Returns the number of statements appended. */
static size_t text_segments(struct sql_text *sql, const struct returning *returning)
{
    const struct ledger_return *returned = returning->returned;
    uint16_t places[LEDGER_SEGMENTS_MAX];
    size_t count = 0;
    ledger_segments_order(returned->segments, returned->segment_count, places);
    for (size_t i = 0; i < returned->segment_count; i++) {
        uint32_t segment = returned->segments[places[i]].segment;
        unsigned long long units = returning->units[places[i]];
        unsigned long long fence = returning->fences[places[i]];
        if (units == 0)
            continue;
        sql_printf(sql, "UPDATE stock_segment SET sold=sold-%llu,fence=%llu WHERE sku=", units,
                   fence);
        sql_identifier(sql, returned->sku);
        sql_printf(sql, " AND segment=%u AND round=%u AND fence<%llu AND sold>=%llu;", segment,
                   returned->round, fence, units);
        count++;
    }
    return count;
}

/* Appends the SELECT of the segments as they are now and of whether the sale counts its users'
 * units. The question comes while the segments' rows are locked, because a sale that begins to
 * count changes all of them first. */
static void text_rows(struct sql_text *sql, const struct ledger_return *returned)
{
    sql_printf(sql, "SELECT segment,round,capacity,sold,fence," USER_QUOTA_COUNTED
                    "," USER_QUOTA_COUNTED_TO "FROM stock_segment g WHERE sku=");
    sql_identifier(sql, returned->sku);
    text_segment_list(sql, returned);
    sql_printf(sql, "ORDER BY segment");
}

/* A damaged row comes without a fence: its segment is not loaded from it. */
static void read_rows(struct db *db, struct returning *returning)
{
    struct ledger_return *returned = returning->returned;
    returning->counted = false;
    returning->counted_to = UINT64_MAX;
    for (char **row = db_row(db); row; row = db_row(db)) {
        struct ledger_segment now;
        ledger_segment_read(returning->ledger, returned->sku, &now, row);
        returning->counted |= ledger_u32(row[5]) != 0;
        if (row[6])
            returning->counted_to = ledger_u64(row[6]);
        for (size_t i = 0; i < returned->segment_count; i++)
            if (returned->segments[i].segment == now.segment)
                returned->segments[i] = now;
    }
}

/* A segment refused its units. Finds the order to be left out, if it has sold too few. */
static void find_damaged(struct db *db, struct returning *returning)
{
    const struct ledger_return *returned = returning->returned;
    struct ledger_segment now;
    for (char **row = db_row(db); row; row = db_row(db)) {
        bool valid = ledger_segment_read(returning->ledger, returned->sku, &now, row);
        for (size_t i = 0; i < returned->segment_count; i++)
            if (valid && now.round == returned->round &&
                returned->segments[i].segment == now.segment && returning->units[i] > now.sold)
                returning->damaged_id = returning->greatest[i].order_id;
    }
}

static enum db_result return_to_quotas(const struct returning *returning)
{
    const struct ledger_return *returned = returning->returned;
    struct sql_text *sql = &returning->ledger->sql;
    sql_clear(sql);
    bool any = user_quota_text_return(sql, returned->sku, returned->round, returning->orders,
                                      returned->moved, returning->counted_to);
    return any ? ledger_query(returning->ledger) : DB_OK;
}

/* Only the units of orders whose status changes here go back, under the locks of their rows: that
 * is what makes a repeat harmless. */
static enum db_result return_body(struct db *db, void *context)
{
    struct returning *returning = context;
    struct ledger_return *returned = returning->returned;
    struct sql_text *sql = &returning->ledger->sql;
    enum db_result result = find_returnable(returning);
    if (result != DB_OK)
        return result;
    bool complete = read_returnable(returning, db);
    if (!complete || returned->moved == 0)
        return complete ? DB_OK : DB_NO;
    sql_clear(sql);
    size_t guarded = text_segments(sql, returning);
    sql_printf(sql, "UPDATE orders FORCE INDEX(PRIMARY)SET status='%s' WHERE order_id IN",
               ledger_status_name(returned->to));
    text_ids(sql, returned->moved_ids, returned->moved);
    if (returned->segment_count > 0) {
        sql_append(sql, ";", 1);
        user_quota_text_hold(sql, returned->sku, returned->round);
        text_rows(sql, returned);
    }
    result = ledger_query(returning->ledger);
    for (size_t i = 0; i < guarded && result == DB_OK; i++)
        if (db_affected(db, i) != 1)
            result = DB_NO;
    if (result == DB_OK && returned->segment_count > 0)
        read_rows(db, returning);
    else if (result == DB_NO)
        find_damaged(db, returning);
    return result == DB_OK && returning->counted ? return_to_quotas(returning) : result;
}

/* Leaves out the order that return_body has found damaged. False: it has found none. */
static bool leave_out(struct returning *returning)
{
    unsigned long long id = returning->damaged_id;
    returning->damaged_id = 0;
    if (id == 0 || returning->left_out_count == LEDGER_RETURNS_MAX)
        return false;
    ledger_note_damage(returning->ledger,
                       "orders: order_id %llu, sku '%s', has more units than its segment has sold",
                       id, returning->returned->sku);
    returning->left_out[returning->left_out_count++] = id;
    return true;
}

enum ledger_result ledger_return(struct ledger *ledger, struct ledger_return *returned)
{
    assert(returned->order_count > 0 && returned->order_count <= LEDGER_RETURNS_MAX);
    assert(returned->segment_count <= LEDGER_SEGMENTS_MAX);
    assert(returned->to == LEDGER_CANCELLED || returned->to == LEDGER_EXPIRED);
    struct returning returning = {.ledger = ledger, .returned = returned};
    for (size_t i = 0; i < returned->segment_count; i++)
        returning.fences[i] = returned->segments[i].fence;
    enum ledger_result result = LEDGER_NO;
    do
        result = ledger_from_db(db_run(ledger->db, return_body, &returning));
    while (result == LEDGER_NO && leave_out(&returning));
    bool none = result == LEDGER_OK && returned->moved == 0;
    return none && returning.left_out_count > 0 ? LEDGER_DAMAGED : result;
}
