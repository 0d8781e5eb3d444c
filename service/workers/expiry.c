/* The expiry worker: a thread, active in one daemon of many, that lets unpaid orders expire. It
 * also finishes work begun by calls at any daemon (counting for a limit set in mid-sale, ending a
 * round that was reset), and deletes the leftovers of rounds that ended long ago.
 *
 * why_no_fence: a lock elects the daemon. A daemon that outlives its lease works beside the next
 * one for a moment, which wastes work and breaks nothing: each transaction moves only orders that
 * are still reserved, under the locks and fences of their segments. */
#include "service/workers/workers.h"

#include "base/clock.h"
#include "sql/sales/sales.h"
#include "service/request/faults.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"
#include "stock/returns/returns.h"
#include "stock/sales/sales.h"

enum {
    PERIOD_MS = 200,   /* between two checks for due orders and the lock */
    REST_PART = 5,     /* rests for 1/5 of the time that expiring took, see expire */
    COUNT_MS = 100,    /* counting per turn: due orders come in between */
    END_MS = 100,      /* ending orders of earlier rounds per turn, likewise */
    PURGE_MS = 40,     /* purging per turn */
    PURGE_ROWS = 1000, /* examined in one transaction */
    PURGE_PAUSE_S = 2, /* before the next check when no round was due */
};

_Static_assert((int)PURGE_MS < (int)PERIOD_MS, "due orders come between two pieces of purging");

struct expiry_worker {
    struct service_worker base;
    int64_t purge_next_ns; /* next check, after nothing was left to delete */
};

/* Expires the orders due now. Orders in segments that another worker holds, and orders that fall
 * due meanwhile, come after the pause: a few large transactions instead of many small ones. False
 * when Redis or the ledger failed.
 *
 * why_rest: very many due orders would keep the ledger busy for seconds. The worker pauses between
 * transactions to leave the ledger to new orders, unless these wait for just the units that come
 * back (`awaited`). */
static bool expire(struct expiry_worker *worker)
{
    uint64_t ended = 0;
    struct ledger_due_cursor cursor = {.more = false};
    enum ledger_result result = LEDGER_OK;
    struct stock_expired expired;
    size_t all = 0;
    bool counting = false;
    faults_begin(worker->base.stock);
    do {
        int64_t start_ns = clock_now_ns();
        enum ledger_result counted =
            stock_count(worker->base.stock, start_ns + COUNT_MS * CLOCK_NS_PER_MS);
        counting = counted == LEDGER_OK;
        enum ledger_result rounds =
            stock_round_end(worker->base.stock, clock_now_ns() + END_MS * CLOCK_NS_PER_MS, &ended);
        counting |= rounds == LEDGER_OK;
        result = stock_expire(worker->base.stock, &cursor, &expired);
        metrics_add(METRIC_ORDERS_EXPIRED, expired.count);
        all += expired.count;
        if (counted == LEDGER_FAILED || rounds == LEDGER_FAILED)
            result = LEDGER_FAILED;
        if (counting || (cursor.more && 2 * expired.awaited < expired.count))
            worker_sleep_ns(&worker->base.thread, (clock_now_ns() - start_ns) / REST_PART);
    } while (result == LEDGER_OK && (cursor.more || counting) &&
             election_held(&worker->base.election) && !worker_stopping(&worker->base.thread));
    metrics_add(METRIC_ORDERS_EXPIRED, ended);
    if (all > 0)
        log_event(LOG_INFO, "expired", "orders=%zu", all);
    if (ended > 0)
        log_event(LOG_INFO, "rounds_ended", "orders=%llu", (unsigned long long)ended);
    if (result != LEDGER_OK || stock_fault(worker->base.stock, STOCK_LEDGER)->damaged)
        faults_log(worker->base.stock, "expiry_worker_failed", 0,
                   "orders that were not paid in time keep their units until this succeeds", NULL);
    return result == LEDGER_OK;
}

/* ---- leftovers of ended rounds ---- */

/* Spends PURGE_MS on deleting the leftovers of rounds that ended more than retention_days ago; 0
 * keeps everything. False when the ledger failed. A turn deletes little, so that due orders never
 * wait. */
static bool purge(struct expiry_worker *worker)
{
    unsigned days = (unsigned)worker->base.service->config.retention_days;
    int64_t now_ns = clock_now_ns();
    int64_t until_ns = now_ns + PURGE_MS * CLOCK_NS_PER_MS;
    enum ledger_result result = LEDGER_OK;
    struct ledger_purged purged;
    if (days == 0 || now_ns < worker->purge_next_ns)
        return true;
    while (result == LEDGER_OK && clock_now_ns() < until_ns) {
        result = ledger_purge(stock_ledger(worker->base.stock), days, PURGE_ROWS, &purged);
        metrics_add(METRIC_PURGED_KEYS, purged.keys);
        metrics_add(METRIC_PURGED_USERS, purged.users);
        if (purged.done)
            log_event(LOG_INFO, "round_purged", "sku=%s round=%u", purged.sku, purged.round);
    }
    if (result == LEDGER_NO)
        worker->purge_next_ns = now_ns + PURGE_PAUSE_S * CLOCK_NS_PER_S;
    return result == LEDGER_OK || result == LEDGER_NO;
}

/* Handles due orders first, then spends the rest of the turn on past rounds. */
static bool work(void *self)
{
    struct expiry_worker *worker = self;
    unsigned section = sale_cache_enter(worker->base.service->sale_cache);
    bool expired = expire(worker);
    sale_cache_leave(worker->base.service->sale_cache, section);
    if (!expired)
        return false;
    faults_begin(worker->base.stock);
    if (purge(worker)) {
        faults_log_damage(stock_ledger(worker->base.stock));
        return true;
    }
    faults_log(worker->base.stock, "retention_failed", 0,
               "what ended rounds have left stays until this succeeds", NULL);
    return false;
}

static void tell(void *self, enum election_result result)
{
    struct expiry_worker *worker = self;
    atomic_store(&worker->base.service->elected, result == ELECTION_HELD);
    metrics_add(METRIC_EXPIRY_TURNS, result == ELECTION_HELD);
}

static const struct election_task expiring = {
    .lock = "expirer",
    .period_ms = PERIOD_MS,
    .work = work,
    .tell = tell,
    .won = "expiry_worker_elected",
    .lost = "expiry_worker_lost_lock",
    .failed = "expiry_worker_not_elected",
    .lost_effect = "another daemon expires the orders that are not paid in time",
    .failed_effect = "orders that were not paid in time keep their units, unless another daemon "
                     "expires them",
};

const struct worker_kind expiry_worker_kind = {
    .name = "expiry-worker",
    .size = sizeof(struct expiry_worker),
    .servers = WORKER_OF_STOCK,
    .task = &expiring,
};
