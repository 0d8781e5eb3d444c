/* Looking at a sale for an audit: its segments in the ledger and in Redis, changing nothing. */
#ifndef STOCK_SALES_AUDIT_H
#define STOCK_SALES_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "sql/sales/ledger_sale.h"
#include "sql/ledger_segment.h"
#include "stock/types.h"

/* A segment as Redis has it. */
struct stock_cached {
    bool present;
    bool open; /* a holder has taken units and not settled them */
    int64_t available;
    uint32_t round;
    uint64_t settled; /* the fence of the last settled change */
};

struct stock_audit {
    struct ledger_sale sale;
    size_t count; /* segments that the ledger has of the sale's round */
    struct ledger_segment segments[LEDGER_SEGMENTS_MAX];
    struct stock_cached cached[LEDGER_SEGMENTS_MAX];
};

/* Reads the sale by one statement and then its segments in Redis by one pipeline, without locks:
 * while the sale moves they may differ. Where the ledger's fences are the same before and after,
 * nothing was sold or returned in between. STOCK_ADMIN_OK, STOCK_ADMIN_NO_SALE or
 * STOCK_ADMIN_FAILED. */
enum stock_admin_result stock_audit(struct stock *stock, const char *sku,
                                    struct stock_audit *audit_out);

/* How the segment in Redis differs from its row: "ok", "missing", "dirty", "round", "stale"
 * (settled at another fence) or "mismatch" (another number of units). */
const char *stock_audit_state(const struct ledger_segment *row, const struct stock_cached *cached);

#endif
