/* Units added to a running sale. */
#include "sql/sales/sales.h"

#include <assert.h>

#include "sql/ledger/ledger_query.h"

struct adding {
    struct ledger *ledger;
    struct ledger_restock *restock;
    struct ledger_sale *sale_out;
    struct ledger_segment *segments_out;
};

static enum db_result query_with_sku(struct adding *adding, const char *before, const char *behind)
{
    struct sql_text *sql = &adding->ledger->sql;
    sql_begin(sql, "%s", before);
    sql_identifier(sql, adding->restock->sku);
    sql_printf(sql, "%s", behind);
    return ledger_query(adding->ledger);
}

/* The key is written before the total is checked, so that a repeat that waited for its first try is
 * a duplicate even where the units of the first try leave no room for a second. */
static enum db_result write_key(struct adding *adding, uint32_t round)
{
    const struct ledger_restock *restock = adding->restock;
    struct sql_text *sql = &adding->ledger->sql;
    if (restock->key[0] == '\0')
        return DB_OK;
    sql_begin(sql, "INSERT INTO restock(units,round,sku,idempotency_key)VALUES(%u,%u,",
              restock->units, round);
    sql_identifier(sql, restock->sku);
    sql_text_identifier(sql, ",", restock->key);
    sql_append(sql, ")", 1);
    return ledger_query(adding->ledger);
}

/* Locks the sale and checks that it can take the units. */
static enum db_result check_sale(struct adding *adding, struct db *db)
{
    struct ledger_restock *restock = adding->restock;
    enum db_result result =
        query_with_sku(adding, "SELECT segments,total,round FROM sale WHERE sku=", " FOR UPDATE");
    if (result != DB_OK)
        return result;
    char **row = db_row(db);
    /* The caller has one fence per segment; a reset may have changed their number meanwhile. */
    if (!row || ledger_u32(row[0]) != restock->fence_count)
        return DB_NO;
    uint64_t total = ledger_u64(row[1]);
    result = write_key(adding, ledger_u32(row[2]));
    restock->too_many = result == DB_OK && total + restock->units > restock->total_max;
    return restock->too_many ? DB_NO : result;
}

static enum db_result read_segments(struct adding *adding, struct db *db)
{
    size_t count = 0;
    enum db_result result = query_with_sku(
        adding, "SELECT segment,round,capacity,sold,fence FROM stock_segment WHERE sku=",
        " ORDER BY segment FOR UPDATE");
    if (result != DB_OK)
        return result;
    for (char **row = db_row(db); row; row = db_row(db)) {
        if (count == adding->restock->fence_count)
            return DB_NO;
        if (!ledger_segment_read(adding->ledger, adding->restock->sku,
                                 &adding->segments_out[count++], row))
            return DB_FAILED;
    }
    return count == adding->restock->fence_count ? DB_OK : DB_NO;
}

/* Divides what is left, with the new units, into equal parts; where it does not divide, the first
 * segments get one unit more. */
static void level(struct ledger_segment *segments, size_t count, uint32_t units)
{
    uint32_t left = units;
    for (size_t i = 0; i < count; i++)
        left += segments[i].capacity - segments[i].sold;
    for (size_t i = 0; i < count; i++)
        segments[i].capacity =
            segments[i].sold + left / (uint32_t)count + (i < left % (uint32_t)count);
}

static void text_changes(struct adding *adding)
{
    const struct ledger_restock *restock = adding->restock;
    struct sql_text *sql = &adding->ledger->sql;
    sql_begin(sql, "UPDATE sale SET total=total+%u,settings_version=settings_version+1 WHERE sku=",
              restock->units);
    sql_identifier(sql, restock->sku);
    for (size_t i = 0; i < restock->fence_count; i++) {
        sql_printf(sql,
                   ";UPDATE stock_segment SET capacity=%u,settings_version=settings_version+1,"
                   "fence=GREATEST(fence+1,%llu)WHERE segment=%u AND sku=",
                   adding->segments_out[i].capacity, (unsigned long long)restock->fences[i],
                   adding->segments_out[i].segment);
        sql_identifier(sql, restock->sku);
    }
}

static enum db_result restock_body(struct db *db, void *context)
{
    struct adding *adding = context;
    enum db_result result = check_sale(adding, db);
    if (result == DB_OK)
        result = read_segments(adding, db);
    if (result != DB_OK)
        return result;
    level(adding->segments_out, adding->restock->fence_count, adding->restock->units);
    text_changes(adding);
    result = ledger_query(adding->ledger);
    if (result == DB_OK) /* again, because only the server knows the fences that GREATEST chose */
        result = read_segments(adding, db);
    if (result != DB_OK)
        return result;
    enum ledger_result found =
        ledger_sale_find(adding->ledger, adding->restock->sku, adding->sale_out);
    return found == LEDGER_OK ? DB_OK : DB_FAILED;
}

enum ledger_result ledger_restock(struct ledger *ledger, struct ledger_restock *restock,
                                  struct ledger_sale *sale_out, struct ledger_segment *segments_out)
{
    assert(restock->fence_count > 0 && restock->fence_count <= LEDGER_SEGMENTS_MAX);
    struct adding adding = {ledger, restock, sale_out, segments_out};
    restock->too_many = false;
    return ledger_from_db(db_run(ledger->db, restock_body, &adding));
}

enum ledger_result ledger_restock_find(struct ledger *ledger, const char *sku, const char *key,
                                       uint32_t *units_out, uint32_t *round_out)
{
    struct sql_text *sql = &ledger->sql;
    sql_begin(sql, "SELECT units,round FROM restock WHERE sku=");
    sql_identifier(sql, sku);
    sql_text_identifier(sql, " AND idempotency_key=", key);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = db_row(ledger->db);
    if (!row)
        return LEDGER_NO;
    *units_out = ledger_u32(row[0]);
    *round_out = ledger_u32(row[1]);
    return LEDGER_OK;
}
