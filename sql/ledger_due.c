/* Orders that were not paid in time.
 *
 * Which orders expire is noted in order_expiry, one row for those that were taken together: a range
 * of ids and their moment. A row is read with the moment it names, then the orders of its range,
 * and it goes when it is found to have none left that is reserved. */
#include "sql/ledger_due.h"

#include <stdio.h>

#include "sql/ledger_query.h"
#include "sql/ledger_status.h"

enum { NOTES_MAX = 64 }; /* read at a time */

struct note {
    char expires_at[LEDGER_TIME_SIZE]; /* as MySQL writes it */
    uint64_t first_id, last_id;
    bool due; /* some of its orders are */
};

static bool read_notes(struct ledger *ledger, const struct ledger_due_cursor *cursor,
                       struct note *notes, size_t *count_out)
{
    struct sql_text *sql = &ledger->sql;
    sql_clear(sql);
    sql_printf(sql, "SELECT expires_at,first_id,last_id FROM order_expiry WHERE "
                    "expires_at<=UTC_TIMESTAMP(3)");
    if (cursor->more)
        sql_printf(sql, " AND expires_at>='%s' AND(expires_at>'%s' OR first_id>%llu)",
                   cursor->expires_at, cursor->expires_at, (unsigned long long)cursor->first_id);
    sql_printf(sql, " ORDER BY expires_at,first_id LIMIT %d", NOTES_MAX);
    if (ledger_read(ledger) != DB_OK)
        return false;
    *count_out = 0;
    for (char **row = db_row(ledger->db); row && *count_out < NOTES_MAX; row = db_row(ledger->db)) {
        struct note *note = &notes[(*count_out)++];
        *note = (struct note){.first_id = ledger_u64(row[1]), .last_id = ledger_u64(row[2])};
        snprintf(note->expires_at, sizeof note->expires_at, "%s", row[0]);
    }
    return true;
}

/* How many of the notes cannot have more than `max` orders together; the first one in any case. */
static size_t notes_within(const struct note *notes, size_t count, size_t max)
{
    uint64_t ids = 0;
    size_t within = 0;
    while (within < count) {
        ids += notes[within].last_id - notes[within].first_id + 1;
        if (within > 0 && ids > max)
            break;
        within++;
    }
    return within;
}

/* By the moment of the notes, not by the clock once more: should that have been set back meanwhile,
 * orders would be missed and their notes go. */
static bool read_orders(struct ledger *ledger, const struct note *notes, size_t count, size_t max)
{
    struct sql_text *sql = &ledger->sql;
    sql_clear(sql);
    sql_printf(sql,
               "SELECT order_id,sku,round,segment,expires_at FROM orders WHERE "
               "status='%s' AND expires_at<='%s'",
               ledger_status_name(LEDGER_RESERVED), notes[count - 1].expires_at);
    for (size_t i = 0; i < count; i++)
        sql_printf(sql, "%sorder_id BETWEEN %llu AND %llu", i == 0 ? " AND(" : " OR ",
                   (unsigned long long)notes[i].first_id, (unsigned long long)notes[i].last_id);
    sql_printf(sql, ")ORDER BY order_id LIMIT %zu", max);
    return ledger_read(ledger) == DB_OK;
}

static void read_due(struct ledger_due *due, char **row)
{
    due->order_id = ledger_u64(row[0]);
    ledger_identifier(due->sku, row[1]);
    due->round = ledger_u32(row[2]);
    due->segment = row[3] ? (int32_t)ledger_u32(row[3]) : LEDGER_SEGMENT_SEVERAL;
}

static void mark_note(struct note *notes, size_t count, uint64_t order_id)
{
    for (size_t i = 0; i < count; i++)
        if (order_id >= notes[i].first_id && order_id <= notes[i].last_id)
            notes[i].due = true;
}

/* Those whose orders are all decided. It can be repeated, and be left out. */
static bool forget_notes(struct ledger *ledger, const struct note *notes, size_t count)
{
    struct sql_text *sql = &ledger->sql;
    bool any = false;
    sql_clear(sql);
    for (size_t i = 0; i < count; i++) {
        if (notes[i].due)
            continue;
        sql_printf(sql, "%s('%s',%llu)",
                   any ? "," : "DELETE FROM order_expiry WHERE(expires_at,first_id)IN(",
                   notes[i].expires_at, (unsigned long long)notes[i].first_id);
        any = true;
    }
    sql_append(sql, ")", 1);
    return !any || ledger_read(ledger) == DB_OK;
}

enum ledger_result ledger_due_list(struct ledger *ledger, struct ledger_due_cursor *cursor,
                                   size_t max, struct ledger_due *due_out, size_t *count_out)
{
    struct note notes[NOTES_MAX];
    size_t found = 0;
    *count_out = 0;
    if (!read_notes(ledger, cursor, notes, &found))
        return LEDGER_FAILED;
    size_t count = notes_within(notes, found, max);
    cursor->more = count < found || found == NOTES_MAX;
    if (count == 0)
        return LEDGER_OK;
    snprintf(cursor->expires_at, sizeof cursor->expires_at, "%s", notes[count - 1].expires_at);
    cursor->first_id = notes[count - 1].first_id;
    if (!read_orders(ledger, notes, count, max))
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row && *count_out < max; row = db_row(ledger->db)) {
        read_due(&due_out[*count_out], row);
        mark_note(notes, count, due_out[(*count_out)++].order_id);
    }
    return forget_notes(ledger, notes, count) ? LEDGER_OK : LEDGER_FAILED;
}
