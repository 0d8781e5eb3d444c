/* The ledger: what its calls share, recovery and look-ups. */
#include "sql/ledger.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sql/ledger_private.h"
#include "sql/stock_update.h"

struct ledger *ledger_open(const char *url, int timeout_ms, char *error_out, size_t error_size)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);
    if (!ledger)
        abort();
    ledger->db = db_open(url, timeout_ms, error_out, error_size);
    if (!ledger->db) {
        free(ledger);
        return NULL;
    }
    ledger->insert = order_insert_open();
    return ledger;
}

void ledger_close(struct ledger **ledger)
{
    if (*ledger) {
        order_insert_close(&(*ledger)->insert);
        db_close(&(*ledger)->db);
        sql_free(&(*ledger)->sql);
    }
    free(*ledger);
    *ledger = NULL;
}

const char *ledger_error(const struct ledger *ledger)
{
    return db_error(ledger->db);
}

struct db_stats ledger_stats(const struct ledger *ledger)
{
    return db_stats(ledger->db);
}

enum ledger_result ledger_from_db(enum db_result result)
{
    static const enum ledger_result map[] = {
        [DB_OK] = LEDGER_OK,           [DB_NO] = LEDGER_NO,       [DB_DUPLICATE] = LEDGER_DUPLICATE,
        [DB_CHECK] = LEDGER_LIMIT,     [DB_SOFT] = LEDGER_FAILED, [DB_FAILED] = LEDGER_FAILED,
        [DB_UNKNOWN] = LEDGER_UNKNOWN,
    };
    return map[result];
}

enum ledger_result ledger_ping(struct ledger *ledger)
{
    return ledger_from_db(db_ping(ledger->db));
}

enum db_result ledger_query(struct ledger *ledger)
{
    return db_query(ledger->db, ledger->sql.text, ledger->sql.length);
}

enum db_result ledger_read(struct ledger *ledger)
{
    enum db_result result = ledger_query(ledger);
    return result == DB_FAILED && db_in_doubt(ledger->db) ? ledger_query(ledger) : result;
}

uint32_t ledger_u32(const char *column)
{
    return column ? (uint32_t)strtoul(column, NULL, 10) : 0;
}

uint64_t ledger_u64(const char *column)
{
    return column ? strtoull(column, NULL, 10) : 0;
}

void ledger_word(char out[LEDGER_IDENTIFIER_SIZE], const char *column)
{
    snprintf(out, LEDGER_IDENTIFIER_SIZE, "%s", column ? column : "");
}

void ledger_time_format(int64_t ms, char out[LEDGER_TIME_SIZE])
{
    struct tm utc;
    time_t seconds = (time_t)(ms / 1000);
    char text[64];
    gmtime_r(&seconds, &utc);
    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900,
             utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, (int)(ms % 1000));
    memcpy(out, text, LEDGER_TIME_SIZE - 1);
    out[LEDGER_TIME_SIZE - 1] = '\0';
}

void ledger_time_read(char out[LEDGER_TIME_SIZE], const char *column)
{
    out[0] = '\0';
    if (!column)
        return;
    snprintf(out, LEDGER_TIME_SIZE, "%.23sZ", column);
    out[10] = 'T';
}

void ledger_text_time(struct sql_text *sql, int64_t ms)
{
    char time[LEDGER_TIME_SIZE];
    if (ms == 0) {
        sql_append(sql, "NULL", 4);
        return;
    }
    ledger_time_format(ms, time);
    sql_append(sql, "'", 1);
    sql_append(sql, time, LEDGER_TIME_SIZE - 2); /* without the Z, which MySQL does not take */
    sql_append(sql, "'", 1);
}

/* ---- recovery ---- */

static void text_raise(struct sql_text *sql, const char *sku, uint32_t segment, uint64_t fence)
{
    sql_printf(sql, "UPDATE stock_segment SET fence=%llu WHERE sku=", (unsigned long long)fence);
    sql_word(sql, sku);
    sql_printf(sql, " AND segment=%u AND fence<%llu;", segment, (unsigned long long)fence);
}

/* A transaction that has sent its commit holds the row until it has ended. */
static void text_wait(struct sql_text *sql, const char *sku, uint32_t segment)
{
    sql_printf(sql, "SELECT fence FROM stock_segment WHERE sku=");
    sql_word(sql, sku);
    sql_printf(sql, " AND segment=%u FOR UPDATE;", segment);
}

enum ledger_result ledger_resolve(struct ledger *ledger, const struct ledger_stock_update *move,
                                  uint64_t order_id)
{
    sql_clear(&ledger->sql);
    if (stock_update_fenced(move))
        text_raise(&ledger->sql, move->sku, move->segment, move->fence);
    else
        text_wait(&ledger->sql, move->sku, move->segment);
    sql_printf(&ledger->sql, "SELECT order_id FROM orders WHERE order_id=%llu",
               (unsigned long long)order_id);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    return db_row(ledger->db) ? LEDGER_OK : LEDGER_NO;
}

struct recovery {
    struct ledger *ledger;
    const char *sku;
    struct ledger_segment *segments;
    size_t count;
};

static struct ledger_segment *segment_find(struct recovery *recovery, uint32_t segment)
{
    for (size_t i = 0; i < recovery->count; i++)
        if (recovery->segments[i].segment == segment)
            return &recovery->segments[i];
    return NULL;
}

static enum db_result recover_body(struct db *db, void *context)
{
    struct recovery *recovery = context;
    enum db_result result = ledger_query(recovery->ledger);
    if (result != DB_OK)
        return result;
    for (char **row = db_row(db); row; row = db_row(db)) {
        struct ledger_segment *segment = segment_find(recovery, ledger_u32(row[0]));
        if (segment)
            ledger_segment_read(segment, row);
    }
    return DB_OK;
}

enum ledger_result ledger_recover(struct ledger *ledger, const char *sku,
                                  struct ledger_segment *segments, size_t count)
{
    assert(count > 0 && count <= LEDGER_SEGMENTS_MAX);
    struct recovery recovery = {ledger, sku, segments, count};
    struct sql_text *sql = &ledger->sql;
    sql_clear(sql);
    for (size_t i = 0; i < count; i++)
        text_raise(sql, sku, segments[i].segment, segments[i].fence);
    ledger_text_segments(sql, sku);
    for (size_t i = 0; i < count; i++) {
        sql_printf(sql, i == 0 ? " AND segment IN(%u" : ",%u", segments[i].segment);
        segments[i].round = 0;
    }
    sql_append(sql, ")", 1);
    return ledger_from_db(db_run(ledger->db, recover_body, &recovery));
}

/* ---- look-ups ---- */

static void read_key(struct ledger_key *keys, size_t count, char **row)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].user_id, row[1]) == 0 && strcmp(keys[i].key, row[2]) == 0) {
            keys[i].order_id = ledger_u64(row[0]);
            ledger_word(keys[i].sku, row[3]);
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
        sql_word(sql, keys[i].user_id);
        sql_printf(sql, " AND k.idempotency_key=");
        sql_word(sql, keys[i].key);
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
    ledger_word(record->sku, row[1]);
    record->round = ledger_u32(row[2]);
    ledger_word(record->user_id, row[3]);
    record->qty = ledger_u32(row[4]);
    record->segment = row[5] ? (int32_t)ledger_u32(row[5]) : LEDGER_SEGMENT_SEVERAL;
    ledger_word(record->key, row[6]);
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
