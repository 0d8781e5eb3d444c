/* Rows of stock_segment: what is sold of each segment of a sale. */
#ifndef SQL_LEDGER_SEGMENT_H
#define SQL_LEDGER_SEGMENT_H

#include "sql/ledger.h"

struct sql_text;

struct ledger_segment {
    uint32_t segment;
    uint32_t round;
    uint32_t capacity;
    uint32_t sold;
    uint64_t fence;
};

/* Reads all segments of a sale by one statement, in order, so that they are consistent with each
 * other; `segments_out` has room for LEDGER_SEGMENTS_MAX. LEDGER_NO: no such sale. */
enum ledger_result ledger_segments(struct ledger *ledger, const char *sku,
                                   struct ledger_segment *segments_out, size_t *count_out);

/* ---- for sql/ only ---- */

/* Lists the places of the segments by their numbers: the order in which every transaction takes
 * their rows, so that none deadlocks with another. */
void ledger_segments_order(const struct ledger_segment *segments, size_t count,
                           uint16_t places_out[LEDGER_SEGMENTS_MAX]);

/* Appends a SELECT of the sale's segments that ends in its condition on the sku. */
void ledger_segments_text(struct sql_text *sql, const char *sku);

/* Reads a row of that SELECT. False, with a note of the damage, when the service cannot have
 * written one of its numbers, or sold exceeds the capacity: then only the segment's number is
 * set. */
bool ledger_segment_read(struct ledger *ledger, const char *sku, struct ledger_segment *segment,
                         char **row);

/* The same, but true also when sold exceeds the capacity. */
bool ledger_segment_read_as_it_is(struct ledger *ledger, const char *sku,
                                  struct ledger_segment *segment, char **row);

/* Reads all of its rows, at most `max`. LEDGER_DAMAGED: one of them makes no sense. */
enum ledger_result ledger_segments_read(struct ledger *ledger, const char *sku,
                                        struct ledger_segment *segments_out, size_t max,
                                        size_t *count_out);

#endif
