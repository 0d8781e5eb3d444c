/* Sorts the orders that a statement names, and reads their rows. */
#include "sql/orders/order_set.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "sql/ledger/ledger_query.h"

static int compare_entries(const void *a, const void *b)
{
    const struct order_set_entry *one = a, *other = b;
    if (one->order_id != other->order_id)
        return one->order_id < other->order_id ? -1 : 1;
    return one->place < other->place ? -1 : one->place > other->place;
}

void order_set_init(struct order_set *set, struct ledger_record *const *records, size_t count)
{
    assert(count > 0 && count <= LEDGER_ORDERS_MAX);
    set->records = records;
    set->count = count;
    set->asks_payable = false;
    for (size_t i = 0; i < count; i++)
        set->entries[i] = (struct order_set_entry){records[i]->order_id, i};
    qsort(set->entries, count, sizeof *set->entries, compare_entries);
}

bool order_set_repeats(const struct order_set *set, size_t entry)
{
    return entry > 0 && set->entries[entry].order_id == set->entries[entry - 1].order_id;
}

size_t order_set_first(const struct order_set *set, size_t entry)
{
    while (order_set_repeats(set, entry))
        entry--;
    return entry;
}

static struct ledger_record *record_at(const struct order_set *set, size_t i)
{
    return set->records[set->entries[i].place];
}

void order_set_ids(const struct order_set *set, struct sql_text *sql)
{
    for (size_t i = 0; i < set->count; i++)
        if (!order_set_repeats(set, i))
            sql_printf(sql, i == 0 ? "(%ju" : ",%ju", set->entries[i].order_id);
    sql_append(sql, ")", 1);
}

size_t order_set_find(const struct order_set *set, uint64_t order_id)
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
    return found ? low : set->count;
}

/* ---- the rows ---- */

static void text_rows(const struct order_set *set, struct sql_text *sql)
{
    sql_printf(sql, "SELECT " LEDGER_RECORD_COLUMNS("o.idempotency_key"));
    if (set->asks_payable) /* most are paid by now: no look at their sale */
        sql_printf(sql,
                   ",%-s,o.status<>%s AND o.round<"
                   "COALESCE((SELECT s.round FROM sale s WHERE s.sku=o.sku),o.round+1)",
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
    record->ordered = ledger_u32(row[10]);
    record->version = ledger_u32(row[11]);
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
        size_t entry = order_set_find(set, ledger_u64(row[0]));
        if (entry == set->count)
            return false;
        struct ledger_record *record = record_at(set, entry);
        if (ledger_record_read(ledger, record, row) && set->asks_payable) {
            record->payable = ledger_u32(row[12]) != 0;
            record->round_over = ledger_u32(row[13]) != 0;
        }
    }
    return true;
}

enum db_result order_set_fetch(const struct order_set *set, struct ledger *ledger,
                               enum db_result (*query)(struct ledger *ledger))
{
    text_rows(set, &ledger->sql);
    enum db_result result = query(ledger);
    if (result != DB_OK)
        return result;
    if (!read_rows(set, ledger))
        return DB_FAILED;
    for (size_t i = 1; i < set->count; i++)
        if (order_set_repeats(set, i))
            *record_at(set, i) = *record_at(set, i - 1);
    return DB_OK;
}
