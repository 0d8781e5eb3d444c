/* Changes and comparisons of whole sales: settings, rounds, added units, ends, audits. */
#ifndef STOCK_SALES_SALES_H
#define STOCK_SALES_SALES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sql/ledger/ledger.h"
#include "sql/sales/sales.h"
#include "stock/stock.h"

/* ---- settings.c, pieces.c ---- */

/* The settings that a change names. */
enum {
    STOCK_CHANGE_STARTS = 1,
    STOCK_CHANGE_ENDS = 2,
    STOCK_CHANGE_LIMIT = 4,
    STOCK_CHANGE_PAY = 8,
    STOCK_CHANGE_PAUSED = 16,
    STOCK_CHANGE_LATE = 32,
    STOCK_CHANGE_HOLD = 64,
    STOCK_CHANGE_GRACE = 128,
    STOCK_CHANGE_ALL = 255,
};

_Static_assert(STOCK_CHANGE_ALL == 2 * STOCK_CHANGE_GRACE - 1, "all of them, and no others");

struct stock_change {
    unsigned fields;
    struct ledger_settings settings;
};

/* Replaces the settings that the change names. */
void stock_change_apply(struct ledger_settings *settings, const struct stock_change *change);

/* Changes the settings of a running sale and publishes them to every process. After STOCK_ADMIN_OK
 * no process gets an order accepted under older settings. A limit where the sale had none needs a
 * count of the existing orders: when they are many, `sale_out` is still closed for it
 * (settings.counting), and stock_count must finish the count. */
enum stock_admin_result stock_change(struct stock *stock, const char *sku,
                                     const struct stock_change *change,
                                     struct ledger_sale *sale_out);

/* Counts on in a sale, in transactions of about a tenth of a second each, until the sale is open or
 * `until_ns` (monotonic) has come, and publishes the opening. Any number of processes may do so,
 * and may die. LEDGER_OK: more is to be counted. LEDGER_NO: the sale is not, or no longer, being
 * counted. LEDGER_FAILED: the ledger cannot be asked. */
enum ledger_result stock_count_sale(struct stock *stock, const char *sku, int64_t until_ns);

/* Does as stock_count_sale for every sale that is being counted, one after the other. LEDGER_NO: no
 * sale is left to count. */
enum ledger_result stock_count(struct stock *stock, int64_t until_ns);

/* ---- reset.c, pieces.c ---- */

struct stock_reset {
    const char *sku;
    uint32_t total;
    uint32_t segments; /* 1..LEDGER_SEGMENTS_MAX, <= total */
    struct stock_change
        change;      /* settings of the next round; settings it leaves out stay as they are */
    const char *key; /* idempotency key; NULL or "" for none */
    bool only_if;    /* only if the sale is in the round `if_round`; 0: does not exist */
    uint32_t if_round;
    int64_t now_ms; /* the ledger's time, UTC since 1970 */
    bool end_round; /* even if orders of the present round hold units: ends the reserved ones */
};

/* Begins the next round of a sale, or its first, holding all of its segments' locks, and publishes
 * it to every process. Waits up to `wait_ms` for the locks. With a key, a repeat does nothing
 * again, and an unclear outcome is looked up. `ended_out` counts the orders of ended rounds that
 * this call has expired; stock_round_end does the rest.
 *
 * STOCK_ADMIN_OK: `sale_out` is the sale in its new round; for a repeat, the sale as it is now if
 * that is still its round, else as the reset left it. STOCK_ADMIN_KEY_REUSED: another reset was
 * made under the key. STOCK_ADMIN_OTHER_ROUND: `sale_out->round` is not the expected one.
 * STOCK_ADMIN_ROUND_IN_USE: `use_out` tells which orders of the round `sale_out->round` hold units.
 * STOCK_ADMIN_ENDED: the sale's end, which the reset does not change, has passed. */
enum stock_admin_result stock_reset(struct stock *stock, const struct stock_reset *reset,
                                    int wait_ms, struct ledger_sale *sale_out,
                                    struct ledger_round_use *use_out, uint64_t *ended_out);

/* Counts the orders that hold the units sold in the sale's round, without any lock, until it has
 * found all of these units or the time is over (then use_out->all_read is false). False when the
 * ledger cannot be asked. */
bool stock_round_use(struct stock *stock, const struct ledger_sale *sale, int64_t until_ns,
                     struct ledger_round_use *use_out);

/* Ends reserved orders of rounds that resets have ended, until none is left or the time is over;
 * adds their number to `ended`. Nobody can pay such an order, and its units no longer exist.
 * LEDGER_OK: go on later. LEDGER_NO: no such order is left. LEDGER_FAILED. */
enum ledger_result stock_round_end(struct stock *stock, int64_t until_ns, uint64_t *ended);

/* ---- restock.c ---- */

enum { STOCK_TOTAL_MAX = 10000000 }; /* units of one sale */

_Static_assert((int)STOCK_TOTAL_MAX <= (int)LEDGER_TOTAL_MAX, "the ledger can count them");

/* Adds `units` >= 1 to a sale, holding all of its segments' locks, levels the segments, and
 * publishes it to every process. Waits up to `wait_ms` for the locks. `key` is an idempotency key,
 * "" for none: with one, a repeat adds nothing again, and an unclear outcome is looked up.
 *
 * STOCK_ADMIN_OK: this call, or an earlier one with its key, has added the units; `sale_out` is the
 * sale as it is now. STOCK_ADMIN_TOO_MANY: the sale would have more than STOCK_TOTAL_MAX.
 * STOCK_ADMIN_KEY_OVER: the key was used in an earlier round. STOCK_ADMIN_KEY_REUSED: other units
 * were added under the key. */
enum stock_admin_result stock_restock(struct stock *stock, const char *sku, uint32_t units,
                                      const char *key, int wait_ms, struct ledger_sale *sale_out);

/* ---- retire.c ---- */

/* Ends a sale that has no reserved order in any round, and publishes that to every process: deletes
 * its row, its segments and its keys in Redis; its orders stay. A later sale of the sku counts its
 * rounds on. Waits up to `wait_ms` for the segments' locks. `sale_out` is the sale as it was.
 * STOCK_ADMIN_IN_USE: orders are reserved; `held_out` tells how many, but all of them only if it is
 * done. STOCK_ADMIN_REFUNDS_DUE: payments of its orders are due back, as many as
 * `held_out` says, and are not made `refunds_elsewhere`. STOCK_ADMIN_COUNTING: half a second did
 * not suffice to count the orders, or an earlier round is still being ended; another call goes on.
 * STOCK_ADMIN_BUSY: orders keep coming. */
enum stock_admin_result stock_retire(struct stock *stock, const char *sku, bool refunds_elsewhere,
                                     int wait_ms, struct ledger_sale *sale_out,
                                     struct ledger_held *held_out);

/* ---- compare.c ---- */

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

/* Reads the sale in one statement and then its segments in Redis in one pipeline, without locks:
 * while the sale moves they may differ. If the ledger's fences are equal before and after, nothing
 * was sold or returned in between. STOCK_ADMIN_OK, STOCK_ADMIN_NO_SALE or STOCK_ADMIN_FAILED. */
enum stock_admin_result stock_audit(struct stock *stock, const char *sku,
                                    struct stock_audit *audit_out);

/* Tells how the segment in Redis differs from its row: "ok", "missing", "dirty", "round", "stale"
 * (settled at another fence) or "mismatch" (another number of units). */
const char *stock_audit_state(const struct ledger_segment *row, const struct stock_cached *cached);

/* A segment whose contents in Redis differed from the ledger's. */
struct stock_difference {
    uint32_t segment;
    const char *reason;      /* as stock_audit_state, but never "ok" or "stale" */
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
 * again. STOCK_ADMIN_OK: they were compared. If a lease ran out or Redis was lost meanwhile, a
 * segment may not be set; orders then find it out of date and recover it. */
enum stock_admin_result stock_reconcile(struct stock *stock, const char *sku, int wait_ms,
                                        struct stock_report *report_out);

#endif
