/* Finds orders that were not paid in time.
 *
 * A commit writes one row of order_expiry for all of its orders whose time to pay, grace included,
 * is over at the same moment: that moment and the range of their ids. The reader takes the ranges
 * whose moment has come, then the orders in them, and deletes a range in which no order is reserved
 * any more. */
#include "sql/orders/orders.h"

#include <stdio.h>

#include "sql/ledger/ledger_query.h"

enum { RANGES_MAX = 64 }; /* read at a time */

struct range {
    char expires_at[LEDGER_TIME_SIZE]; /* as MySQL writes it */
    uint64_t first_id, last_id;
    bool due; /* some of its orders are reserved and due */
};

static bool read_ranges(struct ledger *ledger, const struct ledger_due_cursor *cursor,
                        struct range *ranges, size_t *count_out)
{
    struct sql_text *sql = &ledger->sql;
    sql_begin(sql, "SELECT expires_at,first_id,last_id FROM order_expiry WHERE "
                   "expires_at<=UTC_TIMESTAMP(3)");
    if (cursor->more)
        sql_printf(sql, " AND expires_at>='%-s' AND(expires_at>'%-s' OR first_id>%ju)",
                   cursor->expires_at, cursor->expires_at, cursor->first_id);
    sql_printf(sql, " ORDER BY expires_at,first_id LIMIT %d", RANGES_MAX);
    if (ledger_read(ledger) != DB_OK)
        return false;
    *count_out = 0;
    for (char **row = db_row(ledger->db); row && *count_out < RANGES_MAX;
         row = db_row(ledger->db)) {
        struct range *range = &ranges[(*count_out)++];
        *range = (struct range){.first_id = ledger_u64(row[1]), .last_id = ledger_u64(row[2])};
        snprintf(range->expires_at, sizeof range->expires_at, "%s", row[0]);
    }
    return true;
}

/* Counts the first ranges that together have at most about `max` orders; at least one, so that a
 * call gets on. A range that spans several ms has more ids than orders. */
static size_t ranges_within(const struct range *ranges, size_t count, size_t max)
{
    uint64_t ids = 0;
    size_t within = 0;
    while (within < count) {
        uint64_t span = ranges[within].last_id - ranges[within].first_id + 1;
        ids += span < LEDGER_ORDERS_MAX ? span : LEDGER_ORDERS_MAX;
        if (within > 0 && ids > max)
            break;
        within++;
    }
    return within;
}

/* Compares with the moment of the ranges instead of the clock: if the clock were set back after the
 * ranges were read, due orders would be missed and their ranges deleted. */
static bool read_orders(struct ledger *ledger, const struct range *ranges, size_t count, size_t max)
{
    struct sql_text *sql = &ledger->sql;
    sql_begin(sql,
              "SELECT order_id,sku,round,qty FROM orders WHERE "
              "status=%s AND expires_at+INTERVAL COALESCE(grace_s,0)SECOND<='%-s'",
              ledger_status_name(LEDGER_RESERVED), ranges[count - 1].expires_at);
    for (size_t i = 0; i < count; i++)
        sql_printf(sql, "%-sorder_id BETWEEN %ju AND %ju", i == 0 ? " AND(" : " OR ",
                   ranges[i].first_id, ranges[i].last_id);
    sql_printf(sql, ")ORDER BY order_id LIMIT %ju", (uint64_t)max);
    return ledger_read(ledger) == DB_OK;
}

static bool read_due(struct ledger *ledger, struct ledger_due *due, char **row)
{
    bool valid = ledger_identifier_read(due->sku, row[1]) &&
                 ledger_number_valid(row[2], 1, LEDGER_ROUND_MAX) &&
                 ledger_number_valid(row[3], 1, LEDGER_TOTAL_MAX);
    due->order_id = ledger_u64(row[0]);
    if (!valid)
        ledger_note_damage(ledger, "orders: order_id %s, sku '%s', round %s, qty %s", row[0],
                           row[1], row[2], row[3]);
    due->round = ledger_u32(row[2]);
    due->qty = ledger_u32(row[3]);
    return valid;
}

static void mark_range(struct range *ranges, size_t count, uint64_t order_id)
{
    for (size_t i = 0; i < count; i++)
        if (order_id >= ranges[i].first_id && order_id <= ranges[i].last_id)
            ranges[i].due = true;
}

/* Ranges of several ms overlap, so they may have more orders than were read, by their ids. */
static void mark_unread(struct range *ranges, size_t count, uint64_t last_read_id)
{
    for (size_t i = 0; i < count; i++)
        if (ranges[i].last_id > last_read_id)
            ranges[i].due = true;
}

/* Deletes the ranges without a due order. The next reader deletes a range that stays behind. The
 * first pair stands twice: with one alone MariaDB reads the whole table
 * (findings/mariadb_one_pair_scans.sh). */
static bool delete_decided(struct ledger *ledger, const struct range *ranges, size_t count)
{
    struct sql_text *sql = &ledger->sql;
    bool any = false;
    sql_clear(sql);
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].due)
            continue;
        if (!any)
            sql_printf(sql, "DELETE FROM order_expiry WHERE(expires_at,first_id)IN(('%-s',%ju)",
                       ranges[i].expires_at, ranges[i].first_id);
        sql_printf(sql, ",('%-s',%ju)", ranges[i].expires_at, ranges[i].first_id);
        any = true;
    }
    sql_append(sql, ")", 1);
    return !any || ledger_read(ledger) == DB_OK;
}

void ledger_due_text(struct sql_text *sql, uint64_t order_id)
{
    sql_printf(sql,
               "INSERT INTO order_expiry(expires_at,first_id,last_id)SELECT "
               "expires_at+INTERVAL COALESCE(grace_s,0)SECOND,order_id,order_id FROM orders "
               "WHERE order_id=%ju AND expires_at IS NOT NULL "
               "ON DUPLICATE KEY UPDATE last_id=GREATEST(last_id,VALUES(last_id));",
               order_id);
}

enum ledger_result ledger_due_list(struct ledger *ledger, struct ledger_due_cursor *cursor,
                                   size_t max, struct ledger_due *due_out, size_t *count_out)
{
    struct range ranges[RANGES_MAX];
    size_t found = 0;
    *count_out = 0;
    if (!read_ranges(ledger, cursor, ranges, &found))
        return LEDGER_FAILED;
    size_t count = ranges_within(ranges, found, max);
    cursor->more = count < found || found == RANGES_MAX;
    if (count == 0)
        return LEDGER_OK;
    snprintf(cursor->expires_at, sizeof cursor->expires_at, "%s", ranges[count - 1].expires_at);
    cursor->first_id = ranges[count - 1].first_id;
    if (!read_orders(ledger, ranges, count, max))
        return LEDGER_FAILED;
    size_t read = 0;
    uint64_t last_id = 0;
    for (char **row = db_row(ledger->db); row && read < max; row = db_row(ledger->db), read++) {
        bool valid = read_due(ledger, &due_out[*count_out], row);
        last_id = due_out[*count_out].order_id;
        mark_range(ranges, count, last_id); /* also for a damaged order: it may be mended */
        *count_out += valid;
    }
    if (read == max)
        mark_unread(ranges, count, last_id);
    return delete_decided(ledger, ranges, count) ? LEDGER_OK : LEDGER_FAILED;
}
