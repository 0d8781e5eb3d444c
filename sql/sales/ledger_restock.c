/* Adds units to a running sale. */
#include "sql/sales/sales.h"

#include <assert.h>

#include "sql/ledger/ledger_query.h"

/* Locks the sale and checks that it can take the units. The key is written before the total is
 * checked, so that a repeat that waited for its first try is a duplicate even where the units of
 * the first try leave no room for a second. */
static enum db_result check_sale(struct ledger *ledger, struct ledger_restock *restock)
{
    char **row;
    enum db_result result =
        ledger_do_row(ledger, &row, "SELECT segments,total,round FROM sale WHERE sku=%s FOR UPDATE",
                      restock->sku);
    if (result != DB_OK)
        return result;
    /* The caller has one fence per segment; a reset may have changed their number meanwhile. */
    if (ledger_u32(row[0]) != restock->fence_count)
        return DB_NO;
    uint64_t total = ledger_u64(row[1]);
    if (restock->key[0] != '\0')
        result = ledger_do(
            ledger, "INSERT INTO restock(units,round,sku,idempotency_key)VALUES(%u,%u,%s,%s)",
            restock->units, ledger_u32(row[2]), restock->sku, restock->key);
    restock->too_many = result == DB_OK && total + restock->units > restock->total_max;
    return restock->too_many ? DB_NO : result;
}

static enum db_result read_segments(struct ledger *ledger, const struct ledger_restock *restock,
                                    struct ledger_segment *segments)
{
    size_t count = 0;
    enum db_result result =
        ledger_do(ledger, LEDGER_SEGMENTS_SELECT " ORDER BY segment FOR UPDATE", restock->sku);
    if (result != DB_OK)
        return result;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        if (count == restock->fence_count)
            return DB_NO;
        if (!ledger_segment_read(ledger, restock->sku, &segments[count++], row, false))
            return DB_FAILED;
    }
    return count == restock->fence_count ? DB_OK : DB_NO;
}

/* Divides what is left, with the new units, into equal parts; the first segments get one unit of
 * the remainder each. */
static void level(struct ledger_segment *segments, size_t count, uint32_t units)
{
    uint32_t left = units;
    for (size_t i = 0; i < count; i++)
        left += segments[i].capacity - segments[i].sold;
    for (size_t i = 0; i < count; i++)
        segments[i].capacity =
            segments[i].sold + left / (uint32_t)count + (i < left % (uint32_t)count);
}

static void text_changes(struct sql_text *sql, const struct ledger_restock *restock,
                         const struct ledger_segment *segments)
{
    sql_begin(sql,
              "UPDATE sale SET total=total+%u,settings_version=settings_version+1 WHERE sku=%s",
              restock->units, restock->sku);
    for (size_t i = 0; i < restock->fence_count; i++)
        sql_printf(sql,
                   ";UPDATE stock_segment SET capacity=%u,settings_version=settings_version+1,"
                   "fence=GREATEST(fence+1,%ju)WHERE segment=%u AND sku=%s",
                   segments[i].capacity, restock->fences[i], segments[i].segment, restock->sku);
}

static enum db_result add_units(struct ledger *ledger, struct ledger_restock *restock,
                                struct ledger_sale *sale_out, struct ledger_segment *segments_out)
{
    enum db_result result = check_sale(ledger, restock);
    if (result == DB_OK)
        result = read_segments(ledger, restock, segments_out);
    if (result != DB_OK)
        return result;
    level(segments_out, restock->fence_count, restock->units);
    text_changes(&ledger->sql, restock, segments_out);
    result = ledger_query(ledger);
    if (result == DB_OK) /* again, because only the server knows the fences that GREATEST chose */
        result = read_segments(ledger, restock, segments_out);
    if (result != DB_OK)
        return result;
    return ledger_sale_find(ledger, restock->sku, sale_out) == LEDGER_OK ? DB_OK : DB_FAILED;
}

enum ledger_result ledger_restock(struct ledger *ledger, struct ledger_restock *restock,
                                  struct ledger_sale *sale_out, struct ledger_segment *segments_out)
{
    assert(restock->fence_count > 0 && restock->fence_count <= LEDGER_SEGMENTS_MAX);
    struct db_run run = {0};
    restock->too_many = false;
    while (db_run(ledger->db, &run))
        run.result = add_units(ledger, restock, sale_out, segments_out);
    return ledger_from_db(run.result);
}

enum ledger_result ledger_restock_find(struct ledger *ledger, const char *sku, const char *key,
                                       uint32_t *units_out, uint32_t *round_out)
{
    char **row;
    enum ledger_result result = ledger_read_row(
        ledger, &row, "SELECT units,round FROM restock WHERE sku=%s AND idempotency_key=%s", sku,
        key);
    if (result != LEDGER_OK)
        return result;
    *units_out = ledger_u32(row[0]);
    *round_out = ledger_u32(row[1]);
    return LEDGER_OK;
}
