/* Changes a sale's settings while it runs. */
#include "stock/sales/sales.h"

#include <assert.h>

#include "base/clock.h"
#include "sql/sales/sales.h"
#include "stock/sales/lock.h"

enum {
    TRIES_MAX = 20, /* retries after concurrent changes */
    COUNT_MS = 250, /* spent on counting by the change itself: the operator waits for it */
};

void stock_change_apply(struct ledger_settings *settings, const struct stock_change *change)
{
    assert((change->fields & ~(unsigned)STOCK_CHANGE_ALL) == 0);
    const struct ledger_settings *to = &change->settings;
    if (change->fields & STOCK_CHANGE_STARTS)
        settings->starts_ms = to->starts_ms;
    if (change->fields & STOCK_CHANGE_ENDS)
        settings->ends_ms = to->ends_ms;
    if (change->fields & STOCK_CHANGE_LIMIT)
        settings->per_user_limit = to->per_user_limit;
    if (change->fields & STOCK_CHANGE_PAY)
        settings->pay_within_s = to->pay_within_s;
    if (change->fields & STOCK_CHANGE_PAUSED)
        settings->paused = to->paused;
    if (change->fields & STOCK_CHANGE_LATE)
        settings->refund_late = to->refund_late;
    if (change->fields & STOCK_CHANGE_HOLD)
        settings->hold_max_s = to->hold_max_s;
    if (change->fields & STOCK_CHANGE_GRACE)
        settings->grace_s = to->grace_s;
}

/* Tells every process that the sale is closed before the counting begins, and of each later state.
 * stock_count counts what this call does not finish. */
static void publish(struct stock *stock, struct ledger_sale *sale)
{
    struct ledger_sale opened;
    sale_publish(stock, sale);
    if (!sale->settings.counting)
        return;
    stock_count_sale(stock, sale->sku, clock_now_ns() + COUNT_MS * CLOCK_NS_PER_MS);
    if (ledger_sale_find(stock->ledger, sale->sku, &opened) == LEDGER_OK &&
        opened.settings.version > sale->settings.version)
        *sale = opened;
}

/* The ledger changes the settings only from the version that was read: a concurrent change is not
 * overwritten, but changed in turn. */
enum stock_admin_result stock_change(struct stock *stock, const char *sku,
                                     const struct stock_change *change,
                                     struct ledger_sale *sale_out)
{
    enum ledger_result result = LEDGER_NO;
    stock_revalidate(stock);
    for (int tries = 0; tries < TRIES_MAX && result == LEDGER_NO; tries++) {
        result = ledger_sale_find(stock->ledger, sku, sale_out);
        if (result != LEDGER_OK)
            return result == LEDGER_NO ? STOCK_ADMIN_NO_SALE : STOCK_ADMIN_FAILED;
        struct ledger_settings *settings = &sale_out->settings;
        bool unlimited = settings->per_user_limit == 0;
        stock_change_apply(settings, change);
        if (settings->ends_ms != 0 && settings->ends_ms <= settings->starts_ms)
            return STOCK_ADMIN_WINDOW;
        result = ledger_settings_change(stock->ledger, sku, settings,
                                        unlimited && settings->per_user_limit > 0);
    }
    if (result == LEDGER_OK)
        publish(stock, sale_out);
    return result == LEDGER_OK        ? STOCK_ADMIN_OK
           : result == LEDGER_UNKNOWN ? STOCK_ADMIN_IN_DOUBT
           : result == LEDGER_NO      ? STOCK_ADMIN_BUSY
                                      : STOCK_ADMIN_FAILED;
}
