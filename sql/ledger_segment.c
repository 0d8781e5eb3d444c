/* Rows of stock_segment, read. */
#include "sql/ledger_segment.h"

#include <assert.h>

#include "sql/ledger_query.h"

/* By insertion: most lists are sorted already, or nearly. */
void ledger_segments_order(const struct ledger_segment *segments, size_t count,
                           uint16_t places_out[LEDGER_SEGMENTS_MAX])
{
    assert(count <= LEDGER_SEGMENTS_MAX);
    for (size_t i = 0; i < count; i++) {
        size_t j = i;
        for (; j > 0 && segments[i].segment < segments[places_out[j - 1]].segment; j--)
            places_out[j] = places_out[j - 1];
        places_out[j] = (uint16_t)i;
    }
}

void ledger_segments_text(struct sql_text *sql, const char *sku)
{
    sql_printf(sql, "SELECT segment,round,capacity,sold,fence FROM stock_segment WHERE sku=");
    sql_identifier(sql, sku);
}

void ledger_segment_read(struct ledger_segment *segment, char **row)
{
    segment->segment = ledger_u32(row[0]);
    segment->round = ledger_u32(row[1]);
    segment->capacity = ledger_u32(row[2]);
    segment->sold = ledger_u32(row[3]);
    segment->fence = ledger_u64(row[4]);
}

size_t ledger_segments_read(struct db *db, struct ledger_segment *segments_out, size_t max)
{
    size_t count = 0;
    for (char **row = db_row(db); row && count < max; row = db_row(db))
        ledger_segment_read(&segments_out[count++], row);
    return count;
}

enum ledger_result ledger_segments(struct ledger *ledger, const char *sku,
                                   struct ledger_segment *segments_out, size_t *count_out)
{
    *count_out = 0;
    sql_clear(&ledger->sql);
    ledger_segments_text(&ledger->sql, sku);
    sql_printf(&ledger->sql, " ORDER BY segment");
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    *count_out = ledger_segments_read(ledger->db, segments_out, LEDGER_SEGMENTS_MAX);
    return *count_out > 0 ? LEDGER_OK : LEDGER_NO;
}
