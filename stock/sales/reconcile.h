/* Comparing a sale's segments in Redis with the ledger. */
#ifndef STOCK_SALES_RECONCILE_H
#define STOCK_SALES_RECONCILE_H

#include <stdbool.h>
#include <stddef.h>

#include "sql/ledger.h"
#include "stock/types.h"

/* Why a segment in Redis was not what the ledger says. */
enum stock_difference_reason { STOCK_MISSING, STOCK_OTHER_ROUND, STOCK_DIRTY, STOCK_MISMATCH };

struct stock_difference {
    uint32_t segment;
    enum stock_difference_reason reason;
    int64_t redis_available; /* -1: the segment was missing */
    int64_t ledger_available;
};

struct stock_report {
    uint32_t round;
    uint32_t segments;
    size_t difference_count;
    struct stock_difference differences[LEDGER_SEGMENTS_MAX];
    size_t repaired; /* of the differences */
    bool consistent; /* Redis has set every segment to what the ledger says */
};

/* Compares each segment in Redis with the ledger, under the segments' locks, and sets all of them
 * again. STOCK_ADMIN_OK: they were compared. Where a lease ran out or Redis was lost meanwhile, a
 * segment may not be set; orders then find it out of date and recover it. */
enum stock_admin_result stock_reconcile(struct stock *stock, const char *sku, int wait_ms,
                                        struct stock_report *report_out);

#endif
