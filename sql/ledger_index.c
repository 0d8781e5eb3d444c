/* Which orders a user has, without an index that every order would pay for.
 *
 * A commit notes the range of its order ids in order_batch. When RUN_NOTES_MIN notes have gathered,
 * one statement files their orders: a row of order_posting for each bucket of users, with the hash
 * of the user and the id of every order; in the same transaction the notes go. So at any time an
 * order is in a noted range or in a posting. Whoever looks for a user's orders reads the
 * notes first and the postings after them: what moves meanwhile is found twice, never missed. */
#include "sql/ledger_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger_query.h"

enum {
    RUN_NOTES_MIN = 512, /* filed at a time */
    RUN_NOTES_MAX = 4096,
    RUN_ORDERS_MAX = 65536, /* about; bounds a posting, should all be one user's, to 2 MB */
    NOTES_MAX = 65536, /* looked through for one user; with more than that, filing is far behind */
};

/* Ranges no further apart than this, about 100 ms of ids, are looked through as one. */
static const uint64_t ID_GAP = UINT64_C(100) << 22;

struct note {
    uint64_t first_id, last_id;
    uint32_t orders;
};

void ledger_index_text(struct sql_text *sql, const struct ledger_order *orders, size_t count)
{
    struct note note = {UINT64_MAX, 0, (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        note.first_id = orders[i].order_id < note.first_id ? orders[i].order_id : note.first_id;
        note.last_id = orders[i].order_id > note.last_id ? orders[i].order_id : note.last_id;
    }
    sql_printf(sql, "INSERT INTO order_batch(first_id,last_id,orders)VALUES(%llu,%llu,%u);",
               (unsigned long long)note.first_id, (unsigned long long)note.last_id, note.orders);
}

static size_t read_notes(struct ledger *ledger, struct note *notes, size_t max)
{
    size_t count = 0;
    for (char **row = db_row(ledger->db); row && count < max; row = db_row(ledger->db))
        notes[count++] = (struct note){ledger_u64(row[0]), ledger_u64(row[1]), ledger_u32(row[2])};
    return count;
}

/* Appends the condition that an order is in one of the notes' ranges, which come in order. */
static void text_ranges(struct sql_text *sql, const struct note *notes, size_t count)
{
    const char *lead = "(";
    for (size_t i = 0, next; i < count; i = next) {
        uint64_t last_id = notes[i].last_id;
        for (next = i + 1; next < count && notes[next].first_id <= last_id + ID_GAP; next++)
            if (notes[next].last_id > last_id)
                last_id = notes[next].last_id;
        sql_printf(sql, "%sorder_id BETWEEN %llu AND %llu", lead,
                   (unsigned long long)notes[i].first_id, (unsigned long long)last_id);
        lead = " OR ";
    }
    sql_append(sql, ")", 1);
}

/* ---- filing ---- */

struct run {
    struct ledger *ledger;
    struct note notes[RUN_NOTES_MAX];
    size_t count;
    size_t orders;
};

static void text_run(struct sql_text *sql, const struct run *run)
{
    sql_clear(sql);
    sql_printf(sql,
               "INSERT INTO order_index(bucket,run,last_id,orders)"
               "SELECT CRC32(user_id)%%1024 AS b,%llu,MAX(order_id),"
               "GROUP_CONCAT(CRC32(user_id),':',order_id) FROM orders WHERE ",
               (unsigned long long)run->notes[0].first_id);
    text_ranges(sql, run->notes, run->count);
    sql_printf(sql, " GROUP BY b;DELETE FROM order_batch WHERE first_id IN(");
    for (size_t i = 0; i < run->count; i++) {
        sql_append(sql, ",", i > 0);
        sql_number(sql, run->notes[i].first_id);
    }
    sql_append(sql, ")", 1);
}

static enum db_result run_body(struct db *db, void *context)
{
    struct run *run = context;
    struct sql_text *sql = &run->ledger->sql;
    (void)db;
    sql_clear(sql);
    sql_printf(sql,
               "SELECT first_id,last_id,orders FROM order_batch ORDER BY first_id LIMIT %d "
               "FOR UPDATE SKIP LOCKED",
               RUN_NOTES_MAX);
    enum db_result result = ledger_query(run->ledger);
    if (result != DB_OK)
        return result;
    size_t count = read_notes(run->ledger, run->notes, RUN_NOTES_MAX);
    if (count < RUN_NOTES_MIN)
        return DB_NO;
    run->orders = 0;
    for (run->count = 0; run->count < count && run->orders < RUN_ORDERS_MAX; run->count++)
        run->orders += run->notes[run->count].orders;
    text_run(sql, run);
    return ledger_query(run->ledger);
}

enum ledger_result ledger_index_orders(struct ledger *ledger, size_t *orders_out)
{
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        abort();
    run->ledger = ledger;
    enum ledger_result result = ledger_from_db(db_run(ledger->db, run_body, run));
    *orders_out = result == LEDGER_OK ? run->orders : 0;
    free(run);
    return result;
}

/* ---- finding ---- */

static void add_id(struct ledger_order_ids *ids, uint64_t id)
{
    size_t at = ids->count;
    while (at > 0 && ids->ids[at - 1] > id)
        at--;
    if (id <= ids->after || (at > 0 && ids->ids[at - 1] == id))
        return;
    bool full = ids->count == LEDGER_USER_IDS_MAX;
    ids->more |= full;
    if (at == LEDGER_USER_IDS_MAX)
        return;
    size_t moved = ids->count - at - full;
    memmove(&ids->ids[at + 1], &ids->ids[at], moved * sizeof ids->ids[0]);
    ids->ids[at] = id;
    ids->count += !full;
}

/* The user's orders in ranges that no posting has yet. */
static bool find_noted(struct ledger *ledger, const char *user_id, struct ledger_order_ids *ids)
{
    struct sql_text *sql = &ledger->sql;
    struct note *notes = calloc(NOTES_MAX, sizeof *notes);
    if (!notes)
        abort();
    sql_clear(sql);
    sql_printf(
        sql,
        "SELECT first_id,last_id,orders FROM order_batch WHERE last_id>%llu ORDER BY first_id "
        "LIMIT %d",
        (unsigned long long)ids->after, NOTES_MAX);
    bool read = ledger_read(ledger) == DB_OK;
    size_t count = read ? read_notes(ledger, notes, NOTES_MAX) : 0;
    read &= count < NOTES_MAX; /* rather no answer than one that leaves orders out */
    if (read && count > 0) {
        sql_clear(sql);
        sql_printf(sql, "SELECT order_id FROM orders WHERE ");
        text_ranges(sql, notes, count);
        sql_printf(sql, " AND user_id=");
        sql_word(sql, user_id);
        read = ledger_read(ledger) == DB_OK;
        for (char **row = read ? db_row(ledger->db) : NULL; row; row = db_row(ledger->db))
            add_id(ids, ledger_u64(row[0]));
    }
    free(notes);
    return read;
}

/* Reads one posting, hash:id,hash:id… */
static void read_posting(struct ledger_order_ids *ids, const char *text, uint32_t hash)
{
    char *end = NULL;
    for (; *text; text = *end == ',' ? end + 1 : end) {
        bool mine = strtoul(text, &end, 10) == hash;
        if (*end != ':')
            return; /* not ours */
        uint64_t id = strtoull(end + 1, &end, 10);
        if (mine)
            add_id(ids, id);
    }
}

bool ledger_index_find(struct ledger *ledger, const char *user_id, struct ledger_order_ids *ids)
{
    struct sql_text *sql = &ledger->sql;
    if (!find_noted(ledger, user_id, ids))
        return false;
    sql_clear(sql);
    sql_printf(sql, "SELECT CRC32(");
    sql_word(sql, user_id);
    sql_printf(sql, "),orders FROM order_index WHERE bucket=CRC32(");
    sql_word(sql, user_id);
    sql_printf(sql, ")%%1024 AND last_id>%llu", (unsigned long long)ids->after);
    if (ledger_read(ledger) != DB_OK)
        return false;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db))
        read_posting(ids, row[1], ledger_u32(row[0]));
    return true;
}
