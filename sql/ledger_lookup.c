/* Orders found by their ids and by their idempotency keys. */
#include "sql/ledger_lookup.h"

#include <stdio.h>
#include <string.h>

#include "sql/ledger_query.h"

/* The same key may have been asked for more than once; each of its entries gets the order. */
static void read_key(struct ledger_key *keys, size_t count, char **row)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].user_id, row[1]) == 0 && strcmp(keys[i].key, row[2]) == 0) {
            keys[i].order_id = ledger_u64(row[0]);
            ledger_identifier(keys[i].sku, row[3]);
            keys[i].qty = ledger_u32(row[4]);
        }
}

enum ledger_result ledger_keys_find(struct ledger *ledger, struct ledger_key *keys, size_t count)
{
    struct sql_text *sql = &ledger->sql;
    sql_clear(sql);
    sql_printf(sql, "SELECT k.order_id,k.user_id,k.idempotency_key,o.sku,o.qty FROM order_key k "
                    "JOIN orders o ON o.order_id=k.order_id WHERE");
    for (size_t i = 0; i < count; i++) {
        keys[i].order_id = 0;
        sql_printf(sql, i == 0 ? " (k.user_id=" : " OR (k.user_id=");
        sql_identifier(sql, keys[i].user_id);
        sql_printf(sql, " AND k.idempotency_key=");
        sql_identifier(sql, keys[i].key);
        sql_append(sql, ")", 1);
    }
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db))
        read_key(keys, count, row);
    return LEDGER_OK;
}

static void read_record(struct ledger_record *record, char **row)
{
    record->order_id = ledger_u64(row[0]);
    ledger_identifier(record->sku, row[1]);
    record->round = ledger_u32(row[2]);
    ledger_identifier(record->user_id, row[3]);
    record->qty = ledger_u32(row[4]);
    record->segment = row[5] ? (int32_t)ledger_u32(row[5]) : LEDGER_SEGMENT_SEVERAL;
    ledger_identifier(record->key, row[6]);
    snprintf(record->status, sizeof record->status, "%s", row[7]);
    ledger_time_read(record->created_at, row[8]);
    ledger_time_read(record->expires_at, row[9]);
    record->allocation_count = 0;
}

static enum ledger_result read_allocations(struct ledger *ledger, struct ledger_record *record)
{
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql,
               "SELECT segment,qty FROM order_allocation WHERE order_id=%llu ORDER BY segment",
               (unsigned long long)record->order_id);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        if (record->allocation_count == LEDGER_SEGMENTS_MAX)
            break;
        struct ledger_allocation *allocation = &record->allocations[record->allocation_count++];
        allocation->segment = ledger_u32(row[0]);
        allocation->qty = ledger_u32(row[1]);
    }
    return LEDGER_OK;
}

enum ledger_result ledger_order_find(struct ledger *ledger, uint64_t order_id,
                                     struct ledger_record *record_out)
{
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql,
               "SELECT order_id,sku,round,user_id,qty,segment,idempotency_key,status,created_at,"
               "expires_at FROM orders WHERE order_id=%llu",
               (unsigned long long)order_id);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = db_row(ledger->db);
    if (!row)
        return LEDGER_NO;
    read_record(record_out, row);
    return record_out->segment == LEDGER_SEGMENT_SEVERAL ? read_allocations(ledger, record_out)
                                                         : LEDGER_OK;
}
