/* Reads rows of stock_segment. */
#include "sql/ledger/ledger.h"

#include "sql/ledger/ledger_query.h"

/* True when the service could have written each number. */
static bool is_in_range(char **row)
{
    return ledger_number_valid(row[0], 0, LEDGER_SEGMENTS_MAX - 1) &&
           ledger_number_valid(row[1], 1, LEDGER_ROUND_MAX) &&
           ledger_number_valid(row[2], 0, LEDGER_TOTAL_MAX) &&
           ledger_number_valid(row[3], 0, LEDGER_TOTAL_MAX) &&
           ledger_number_valid(row[4], 0, INT64_MAX);
}

bool ledger_segment_read(struct ledger *ledger, const char *sku, struct ledger_segment *segment,
                         char **row, bool as_it_is)
{
    bool in_range = is_in_range(row), fits = ledger_u32(row[3]) <= ledger_u32(row[2]);
    *segment = (struct ledger_segment){.segment = ledger_u32(row[0])};
    if (!in_range || !fits)
        ledger_note_damage(ledger,
                           "stock_segment: sku '%s', segment %s, round %s, capacity %s, sold %s, "
                           "fence %s",
                           sku, row[0], row[1], row[2], row[3], row[4]);
    if (!in_range || (!fits && !as_it_is))
        return false;
    segment->round = ledger_u32(row[1]);
    segment->capacity = ledger_u32(row[2]);
    segment->sold = ledger_u32(row[3]);
    segment->fence = ledger_u64(row[4]);
    return true;
}

enum ledger_result ledger_segments_read(struct ledger *ledger, const char *sku,
                                        struct ledger_segment *segments_out, size_t max,
                                        size_t *count_out)
{
    enum ledger_result result = LEDGER_OK;
    *count_out = 0;
    for (char **row = db_row(ledger->db); row && *count_out < max; row = db_row(ledger->db))
        if (!ledger_segment_read(ledger, sku, &segments_out[(*count_out)++], row, false))
            result = LEDGER_DAMAGED;
    return *count_out == 0 ? LEDGER_NO : result;
}

enum ledger_result ledger_segments(struct ledger *ledger, const char *sku,
                                   struct ledger_segment *segments_out, size_t *count_out)
{
    *count_out = 0;
    sql_begin(&ledger->sql, LEDGER_SEGMENTS_SELECT " ORDER BY segment", sku);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    return ledger_segments_read(ledger, sku, segments_out, LEDGER_SEGMENTS_MAX, count_out);
}
