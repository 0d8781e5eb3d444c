/* Finds orders by their ids and keys, and pays them. */
#include "sql/orders/orders.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"

/* ---- orders that a statement names by their ids ---- */

/* The records to fill in, sorted by id; an id may come more than once. */
struct order_set {
    struct ledger_record *const *records; /* the caller's */
    size_t count;
    bool asks_payable; /* reads `payable` and `round_over`, too; false by default */
    struct order_set_entry {
        uint64_t order_id;
        size_t place; /* in `records` */
    } entries[LEDGER_ORDERS_MAX];
};

static int compare_entries(const void *a, const void *b)
{
    const struct order_set_entry *one = a, *other = b;
    if (one->order_id != other->order_id)
        return one->order_id < other->order_id ? -1 : 1;
    return one->place < other->place ? -1 : one->place > other->place;
}

/* Sorts the orders that the records name, up to LEDGER_ORDERS_MAX of them. */
static void order_set_init(struct order_set *set, struct ledger_record *const *records,
                           size_t count)
{
    assert(count > 0 && count <= LEDGER_ORDERS_MAX);
    set->records = records;
    set->count = count;
    set->asks_payable = false;
    for (size_t i = 0; i < count; i++)
        set->entries[i] = (struct order_set_entry){records[i]->order_id, i};
    qsort(set->entries, count, sizeof *set->entries, compare_entries);
}

/* True when the entry before has the same id. */
static bool is_repeat(const struct order_set *set, size_t i)
{
    return i > 0 && set->entries[i].order_id == set->entries[i - 1].order_id;
}

static struct ledger_record *record_at(const struct order_set *set, size_t i)
{
    return set->records[set->entries[i].place];
}

/* Appends the ids, each once and ascending, in parentheses. */
static void order_set_ids(const struct order_set *set, struct sql_text *sql)
{
    for (size_t i = 0; i < set->count; i++)
        if (!is_repeat(set, i))
            sql_printf(sql, i == 0 ? "(%ju" : ",%ju", set->entries[i].order_id);
    sql_append(sql, ")", 1);
}

/* Returns the place of the first record with that id among `records`; `count`: not found. */
static size_t order_set_find(const struct order_set *set, uint64_t order_id)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (set->entries[middle].order_id < order_id)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < set->count && set->entries[low].order_id == order_id;
    return found ? set->entries[low].place : set->count;
}

/* ---- the rows ---- */

static void text_rows(const struct order_set *set, struct sql_text *sql)
{
    sql_printf(sql, "SELECT " LEDGER_RECORD_COLUMNS("o.idempotency_key"));
    if (set->asks_payable) /* most are paid by now: no look at their sale */
        sql_printf(sql,
                   ",%-s,o.status<>%s AND o.round<"
                   "(SELECT s.round FROM sale s WHERE s.sku=o.sku)",
                   ledger_status_condition(LEDGER_PAID), ledger_status_name(LEDGER_PAID));
    /* Without the index named, the server reads the whole of a table that has few rows. */
    sql_printf(sql, " FROM orders o FORCE INDEX(PRIMARY)WHERE o.order_id IN");
    order_set_ids(set, sql);
}

static bool is_order(char **row)
{
    char text[IDENTIFIER_SIZE];
    return ledger_order_valid(row) && (!row[6] || ledger_identifier_read(text, row[6])) && row[7] &&
           ledger_status_known(row[7]);
}

bool ledger_record_read(struct ledger *ledger, struct ledger_record *record, char **row)
{
    *record = (struct ledger_record){.order_id = ledger_u64(row[0]), .damaged = !is_order(row)};
    if (record->damaged) {
        ledger_note_damage(ledger,
                           "orders: order_id %s, sku '%s', round %s, qty %s, segment %s, status "
                           "'%s', user_id '%s'",
                           row[0], row[1], row[2], row[4], row[5] ? row[5] : "NULL", row[7],
                           row[3]);
        return false;
    }
    ledger_identifier(record->sku, row[1]);
    record->round = ledger_u32(row[2]);
    ledger_user_id(record->user_id, row[3]);
    record->qty = ledger_u32(row[4]);
    record->segment = ledger_u32(row[5]);
    ledger_identifier(record->key, row[6]);
    snprintf(record->status, sizeof record->status, "%s", row[7]);
    ledger_time_read(record->created_at, row[8]);
    ledger_time_read(record->expires_at, row[9]);
    return true;
}

/* Fills in the first record of each id. False when a row was not asked for: no row can be trusted
 * then. */
static bool read_rows(const struct order_set *set, struct ledger *ledger)
{
    struct db *db = ledger->db;
    for (size_t i = 0; i < set->count; i++)
        *record_at(set, i) = (struct ledger_record){.order_id = set->entries[i].order_id};
    for (char **row = db_row(db); row; row = db_row(db)) {
        size_t place = order_set_find(set, ledger_u64(row[0]));
        if (place == set->count)
            return false;
        struct ledger_record *record = set->records[place];
        if (ledger_record_read(ledger, record, row) && set->asks_payable) {
            record->payable = ledger_u32(row[10]) != 0;
            record->round_over = ledger_u32(row[11]) != 0;
        }
    }
    return true;
}

/* Appends a SELECT of the orders to ledger->sql, runs all of it by `query` (ledger_query or
 * ledger_read), and fills in the records, equal ids alike. */
static enum db_result order_set_fetch(const struct order_set *set, struct ledger *ledger,
                                      enum db_result (*query)(struct ledger *ledger))
{
    text_rows(set, &ledger->sql);
    enum db_result result = query(ledger);
    if (result != DB_OK)
        return result;
    if (!read_rows(set, ledger))
        return DB_FAILED;
    for (size_t i = 1; i < set->count; i++)
        if (is_repeat(set, i))
            *record_at(set, i) = *record_at(set, i - 1);
    return DB_OK;
}

/* ---- look-ups ---- */

/* A key may have been asked for more than once; each of its entries gets the order. */
static void read_key(struct ledger_key *keys, size_t count, char **row)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].user_id, row[1]) == 0 && strcmp(keys[i].key, row[2]) == 0)
            keys[i].order_id = ledger_u64(row[0]);
}

/* why_uncommitted: InnoDB shows such a read the newest version of each row, committed or not. A
 * locking read would tell as much, but wait for the transaction that has written the key and hold
 * up every other order of the batch. The level is for the next transaction, the SELECT. */
enum ledger_result ledger_keys_find(struct ledger *ledger, struct ledger_key *keys, size_t count)
{
    struct sql_text *sql = &ledger->sql;
    /* A list of pairs costs the server less than half of what the same pairs joined by OR cost. */
    sql_begin(sql, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;"
                   "SELECT order_id,user_id,idempotency_key FROM order_key "
                   "FORCE INDEX(PRIMARY)WHERE(user_id,idempotency_key)IN(");
    for (size_t i = 0; i < count; i++) {
        keys[i].order_id = 0;
        sql_printf(sql, i == 0 ? "(%s,%s)" : ",(%s,%s)", keys[i].user_id, keys[i].key);
    }
    sql_append(sql, ")", 1);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db))
        read_key(keys, count, row);
    return LEDGER_OK;
}

enum ledger_result ledger_orders_find(struct ledger *ledger, struct ledger_record *const *records,
                                      size_t count)
{
    struct order_set set;
    order_set_init(&set, records, count);
    sql_clear(&ledger->sql);
    return order_set_fetch(&set, ledger, ledger_read) == DB_OK ? LEDGER_OK : LEDGER_FAILED;
}

/* ---- payments ---- */

/*   lock the orders that can be paid, skipping orders that somebody else has locked
 *     ─► UPDATE them · SELECT all ─► commit
 *
 * A reset makes the sale's orders not payable: the payment holds the sale's row, shared, until it
 * is committed, so no order of an ended round slips in.
 *
 * why_skip_locked: an order that is being cancelled, or whose other payment hangs, must not keep
 * hundreds of payments waiting, nor may a sale that is being changed; and a transaction that waits
 * for nobody takes part in no deadlock. Nor does it lock ids that no order has, which would keep
 * new orders from being written. */

static enum db_result lock_payable(struct ledger *ledger, const struct order_set *set)
{
    struct sql_text *sql = &ledger->sql;
    sql_begin(sql, "SELECT o.order_id FROM orders o FORCE INDEX(PRIMARY)WHERE %-sAND o.order_id IN",
              ledger_status_payable_locking());
    order_set_ids(set, sql);
    sql_printf(sql, "FOR UPDATE SKIP LOCKED");
    return ledger_query(ledger);
}

/* The statement that locked the orders has also decided that they are in time. */
static bool text_update(struct ledger *ledger, const struct order_set *set, bool *moved)
{
    struct sql_text *sql = &ledger->sql;
    bool any = false;
    memset(moved, 0, set->count * sizeof *moved);
    sql_clear(sql);
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        uint64_t order_id = ledger_u64(row[0]);
        size_t place = order_set_find(set, order_id);
        if (place == set->count) /* not asked for */
            continue;
        if (!any)
            sql_printf(sql, "UPDATE orders FORCE INDEX(PRIMARY)SET status=%s WHERE order_id IN",
                       ledger_status_name(LEDGER_PAID));
        sql_printf(sql, any ? ",%ju" : "(%ju", order_id);
        moved[place] = any = true;
    }
    if (any)
        sql_append(sql, ");", 2);
    return any;
}

static enum db_result pay(struct ledger *ledger, const struct order_set *set, bool *moved)
{
    bool relies_on_others = false; /* on a status that somebody else has committed */
    enum db_result result = lock_payable(ledger, set);
    if (result != DB_OK)
        return result;
    bool writes = text_update(ledger, set, moved);
    result = order_set_fetch(set, ledger, ledger_query);
    for (size_t i = 0; i < set->count && result == DB_OK; i++) {
        if (moved[i] && set->records[i]->damaged) /* no answer could show the order */
            return DB_NO;
        relies_on_others |= ledger_status_final(set->records[i]->status);
    }
    if (result != DB_OK || writes || !relies_on_others)
        return result;
    return ledger_do(ledger, "%-s", ledger_confirm_text);
}

enum ledger_result ledger_pay(struct ledger *ledger, struct ledger_record *const *records,
                              size_t count, bool *moved_out)
{
    struct order_set set;
    struct db_run run = {0};
    order_set_init(&set, records, count);
    set.asks_payable = true;
    while (db_run(ledger->db, &run))
        run.result = pay(ledger, &set, moved_out);
    return run.result == DB_NO ? LEDGER_DAMAGED : ledger_from_db(run.result);
}
