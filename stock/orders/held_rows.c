/* Looks for rows of the ledger that another transaction holds, instead of waiting for them. */
#include "stock/orders/orders.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum {
    EXPECT_MS = 10000, /* after a held row was met: a look costs far less than a wait */
    HOLDER_MS = 1000,  /* how often the server is asked who holds the row */
};

bool held_rows_expected(const struct stock *stock)
{
    return sale_cache_held_expected(stock->sale_cache, clock_now_ns());
}

/* Notes the row for the log, and the ledger as a failed server, so that clients are told so. */
static void note(struct stock *stock, const char *sku, const char *row)
{
    struct stock_held *held = &stock->held_row;
    held->count++;
    snprintf(held->sku, sizeof held->sku, "%s", sku ? sku : "");
    snprintf(held->row, sizeof held->row, "%s", row);
    fault_note(ledger_fault(stock->ledger), row, "another transaction holds the row");
    int64_t now_ns = clock_now_ns();
    sale_cache_expect_held(stock->sale_cache, now_ns + EXPECT_MS * CLOCK_NS_PER_MS);
    if (now_ns < stock->holder_due_ns)
        return;
    stock->holder_due_ns = now_ns + HOLDER_MS * CLOCK_NS_PER_MS;
    ledger_row_holder(stock->ledger, held->holder);
}

bool held_rows_met(struct stock *stock, const char *sku)
{
    if (!ledger_met_held_row(stock->ledger))
        return false;
    note(stock, sku, "unknown");
    return true;
}

/* Asks which of the rows are held, and notes one of them. If the ledger cannot be asked, no row
 * counts as held. */
static bool look(struct stock *stock, enum ledger_row_kind kind, struct ledger_row *rows,
                 size_t count)
{
    char row[64];
    bool any = false;
    if (count == 0 || ledger_rows_look(stock->ledger, kind, rows, count) != LEDGER_OK)
        return false;
    for (size_t i = 0; i < count && !any; i++) {
        any = rows[i].held;
        if (!any)
            continue;
        snprintf(row, sizeof row, "%s %u",
                 kind == LEDGER_ROW_SALE      ? "sale"
                 : kind == LEDGER_ROW_SEGMENT ? "stock_segment"
                                              : "user_quota",
                 rows[i].number);
        note(stock, rows[i].sku, row);
    }
    return any;
}

/* ---- a batch ---- */

static bool drop_by_segment(struct stock *stock, struct batch *batch)
{
    assert(batch->update_count <= STOCK_HOLDS_MAX);
    struct ledger_row rows[STOCK_HOLDS_MAX] = {{0}};
    for (size_t i = 0; i < batch->update_count; i++) {
        rows[i].sku = batch->updates[i].sku;
        rows[i].number = batch->updates[i].segment;
    }
    bool any = look(stock, LEDGER_ROW_SEGMENT, rows, batch->update_count);
    for (size_t i = 0; i < batch->update_count && any; i++)
        batch->updated[i]->withheld = rows[i].held;
    if (any)
        batch_fit(batch);
    return any;
}

static bool drop_by_user(struct stock *stock, struct batch *batch)
{
    struct batch_order *limited[STOCK_BATCH_MAX];
    struct ledger_row rows[STOCK_BATCH_MAX] = {{0}};
    size_t count = 0;
    for (size_t i = 0; i < batch->order_count; i++) {
        const struct stock_order *order = batch->orders[i].order;
        if (!batch->orders[i].filled || order->group->snapshot.settings.per_user_limit == 0)
            continue;
        rows[count].sku = order->sku;
        rows[count].user_id = order->user_id;
        rows[count].number = order->group->snapshot.round;
        limited[count++] = &batch->orders[i];
    }
    bool any = look(stock, LEDGER_ROW_QUOTA, rows, count);
    for (size_t i = 0; i < count; i++)
        if (rows[i].held)
            batch_order_fail(limited[i], true);
    return any;
}

bool held_rows_drop(struct stock *stock, struct batch *batch)
{
    bool by_segment = drop_by_segment(stock, batch);
    return drop_by_user(stock, batch) || by_segment;
}

/* ---- a sale, and holds of its segments ---- */

bool held_rows_of_sale(struct stock *stock, struct sale *sale)
{
    struct ledger_row rows[LEDGER_SEGMENTS_MAX];
    uint32_t segments = sale_snapshot(sale).segments;
    for (uint32_t i = 0; i < segments; i++)
        rows[i] = (struct ledger_row){.sku = sale_sku(sale), .number = i};
    return look(stock, LEDGER_ROW_SEGMENT, rows, segments) || look(stock, LEDGER_ROW_SALE, rows, 1);
}

size_t held_rows_first(struct stock *stock, struct segment_hold **holds, size_t count)
{
    assert(count > 0 && count <= STOCK_HOLDS_MAX);
    struct ledger_row rows[STOCK_HOLDS_MAX];
    size_t held = 0;
    for (size_t i = 0; i < count; i++)
        rows[i] = (struct ledger_row){.sku = sale_sku(holds[i]->sale), .number = holds[i]->segment};
    bool any = look(stock, LEDGER_ROW_SEGMENT, rows, count);
    for (size_t i = 0; i < count && any; i++) {
        if (!rows[i].held)
            continue;
        struct segment_hold *swapped = holds[held];
        holds[held++] = holds[i];
        holds[i] = swapped;
    }
    assert(held <= count && (any || held == 0));
    return held;
}
