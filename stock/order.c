/* One order on its way through the stock, and the outcomes that it can have. */
#include "stock/order.h"

#include <stdlib.h>

void stock_order_clear(struct stock_order *order)
{
    free(order->history);
    order->history = NULL;
}

bool stock_order_late(const struct stock_order *order, int64_t now_ns)
{
    return order->until_ns != 0 && now_ns >= order->until_ns;
}

bool stock_outcome_refused(enum stock_outcome outcome)
{
    switch (outcome) {
    case STOCK_SOLD_OUT:
    case STOCK_NOT_STARTED:
    case STOCK_ENDED:
    case STOCK_PAUSED:
    case STOCK_COUNTING:
    case STOCK_LIMIT:
    case STOCK_RATE_LIMITED:
    case STOCK_UNKNOWN_SKU:
        return true;
    default:
        return false;
    }
}

enum stock_outcome stock_window_check(const struct ledger_settings *settings, int64_t now_ms,
                                      int64_t *at_ms_out)
{
    *at_ms_out = settings->ends_ms;
    if (settings->ends_ms != 0 && now_ms >= settings->ends_ms)
        return STOCK_ENDED;
    *at_ms_out = settings->starts_ms;
    if (now_ms < settings->starts_ms)
        return STOCK_NOT_STARTED;
    if (settings->paused)
        return STOCK_PAUSED;
    return settings->counting ? STOCK_COUNTING : STOCK_OPEN;
}
