/* Orders that a statement asks for by their ids, and their rows as records. */
#include "sql/orders/order_set.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"
#include "sql/orders/orders.h"

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

/* True when the entry before has the same id. */
static bool is_repeat(const struct order_set *set, size_t i)
{
    return i > 0 && set->entries[i].order_id == set->entries[i - 1].order_id;
}

static struct ledger_record *record_at(const struct order_set *set, size_t i)
{
    return set->records[set->entries[i].place];
}

void order_set_ids(const struct order_set *set, struct sql_text *sql)
{
    for (size_t i = 0; i < set->count; i++) {
        if (is_repeat(set, i))
            continue;
        sql_append(sql, i == 0 ? "(" : ",", 1);
        sql_number(sql, set->entries[i].order_id);
    }
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
    return found ? set->entries[low].place : set->count;
}

/* ---- the rows ---- */

static void text_rows(const struct order_set *set, struct sql_text *sql)
{
    /* Without the index named, the server reads the whole of a table that has few rows. */
    sql_printf(sql, "SELECT o.order_id,o.sku,o.round,o.user_id,o.qty,o.segment,o.idempotency_key,"
                    "o.status,o.created_at,o.expires_at");
    if (set->asks_payable) {
        sql_append(sql, ",", 1);
        ledger_status_text(sql, LEDGER_PAID);
        /* Most are paid by now, and need not look for their sale. */
        sql_printf(sql,
                   ",o.status<>'%s' AND o.round<(SELECT s.round FROM sale s WHERE s.sku=o.sku)",
                   ledger_status_name(LEDGER_PAID));
    }
    sql_printf(sql, " FROM orders o FORCE INDEX(PRIMARY)WHERE o.order_id IN");
    order_set_ids(set, sql);
}

static bool is_order(char **row)
{
    char text[IDENTIFIER_SIZE];
    return ledger_order_valid(row) && (!row[6] || ledger_identifier_read(text, row[6])) && row[7] &&
           ledger_status_known(row[7]);
}

static void read_row(struct ledger *ledger, struct ledger_record *record, char **row)
{
    if (!is_order(row)) {
        ledger_note_damage(ledger,
                           "orders: order_id %s, sku '%s', round %s, qty %s, segment %s, status "
                           "'%s', user_id '%s'",
                           row[0], row[1], row[2], row[4], row[5] ? row[5] : "NULL", row[7],
                           row[3]);
        record->damaged = true;
        return;
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
}

/* Fills in the first record of each id. False when a row was not asked for: then none of them can
 * be believed. */
static bool read_rows(const struct order_set *set, struct ledger *ledger)
{
    struct db *db = ledger->db;
    for (size_t i = 0; i < set->count; i++)
        *record_at(set, i) = (struct ledger_record){.order_id = set->entries[i].order_id};
    for (char **row = db_row(db); row; row = db_row(db)) {
        size_t place = order_set_find(set, ledger_u64(row[0]));
        if (place == set->count)
            return false;
        read_row(ledger, set->records[place], row);
        if (set->asks_payable && !set->records[place]->damaged) {
            set->records[place]->payable = ledger_u32(row[10]) != 0;
            set->records[place]->round_over = ledger_u32(row[11]) != 0;
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
        if (is_repeat(set, i))
            *record_at(set, i) = *record_at(set, i - 1);
    return DB_OK;
}
