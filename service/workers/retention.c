/* Retention: rounds that ended long ago lose what only running rounds need.
 *
 * The expiry worker, of which one in all daemons is at work, does a little of it in each of its
 * turns, so that orders that are due never wait for it. */
#include "service/workers/retention.h"

#include "base/clock.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"

enum {
    TURN_MS = 40, /* spent in one turn, of 200 ms */
    ROWS = 1000,  /* looked at in one transaction */
    PAUSE_S = 2,  /* before looking again when no round was due */
};

static void account(const struct ledger_purged *purged)
{
    metrics_add(METRIC_PURGED_KEYS, purged->keys);
    metrics_add(METRIC_PURGED_USERS, purged->users);
    if (purged->done)
        log_event(LOG_INFO, "round_purged", "sku=%s round=%u", purged->sku, purged->round);
}

bool retention_work(struct retention *retention, struct ledger *ledger, unsigned days)
{
    int64_t now_ns = clock_now_ns();
    int64_t until_ns = now_ns + TURN_MS * CLOCK_NS_PER_MS;
    enum ledger_result result = LEDGER_OK;
    struct ledger_purged purged;
    if (days == 0 || now_ns < retention->next_ns)
        return true;
    while (result == LEDGER_OK && clock_now_ns() < until_ns) {
        result = ledger_purge(ledger, days, ROWS, &purged);
        account(&purged);
    }
    if (result == LEDGER_NO)
        retention->next_ns = now_ns + PAUSE_S * CLOCK_NS_PER_S;
    return result == LEDGER_OK || result == LEDGER_NO;
}
