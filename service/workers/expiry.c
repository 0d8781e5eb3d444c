/* Lets orders expire that were not paid in time: a thread, at work in one daemon of many.
 *
 * why_no_fence: a lock elects the daemon, and one that outlives its lease may go on beside the next
 * one. That is a waste and no more: each transaction moves only orders that are still reserved,
 * under the locks and fences of their segments. One that fails gives its office up: it may be cut
 * off from the ledger alone, and another one not. */
#include "service/workers/expiry.h"

#include <stdlib.h>

#include "lock/seclock.h"
#include "base/clock.h"
#include "base/worker.h"
#include "service/log.h"
#include "service/metrics.h"
#include "stock/return_expired.h"

enum {
    PERIOD_MS = 200, /* between looks for what is due, and for the lock */
    FAILED_MS = 400, /* more than that after a failure: time for others to be elected */
    REST_PART = 5,   /* of the time that expiring took, see expire */
};

struct expirer {
    struct worker worker;
    struct service *service;
    struct stock *stock; /* its own connections */
    struct seclock_client *locks;
    struct seclock_handle *elected; /* NULL: this daemon is not */
};

static void resign(struct expirer *expirer)
{
    if (expirer->elected)
        seclock_release(expirer->elected);
    seclock_free(&expirer->elected);
}

static bool is_elected(const struct expirer *expirer)
{
    return expirer->elected && seclock_state(expirer->elected) == SECLOCK_STATE_HELD;
}

/* Tries to become the one; the lock's watchdog renews it from then on. */
static bool run_for_it(struct expirer *expirer)
{
    const struct seclock_request request =
        SECLOCK_REQUEST(.name = "expirer", .kind = SECLOCK_KIND_SIMPLE);
    if (is_elected(expirer))
        return true;
    if (expirer->elected)
        log_event(LOG_WARN, "expirer_lost_its_lock", NULL);
    resign(expirer);
    if (seclock_acquire(expirer->locks, &request, &expirer->elected) != SECLOCK_OK) {
        resign(expirer); /* one that may have been acquired has a handle as well */
        return false;
    }
    log_event(LOG_INFO, "expirer_elected", NULL);
    return true;
}

/* Expires what is due now. What is held by others, or falls due meanwhile, has its turn after a
 * nap: few large transactions instead of many small ones. When they are very many, orders have the
 * ledger to themselves now and then, unless it is these units that they wait for. False when Redis
 * or the ledger failed. */
static bool expire(struct expirer *expirer)
{
    struct ledger_due_cursor place = {.more = false};
    enum ledger_result result = LEDGER_OK;
    struct stock_expired expired;
    size_t all = 0;
    do {
        int64_t start_ns = clock_now_ns();
        result = stock_expire(expirer->stock, &place, &expired);
        metrics_add(METRIC_ORDERS_EXPIRED, expired.count);
        all += expired.count;
        if (place.more && 2 * expired.awaited < expired.count)
            worker_sleep_ns(&expirer->worker, (clock_now_ns() - start_ns) / REST_PART);
    } while (result == LEDGER_OK && place.more && is_elected(expirer) &&
             !worker_stopping(&expirer->worker));
    if (all > 0)
        log_event(LOG_INFO, "expired", "orders=%zu", all);
    if (result != LEDGER_OK)
        log_event(LOG_WARN, "expirer_failed", "redis=%s ledger=%s",
                  LOG_QUOTE(stock_redis_error(expirer->stock)),
                  LOG_QUOTE(ledger_error(stock_ledger(expirer->stock))));
    return result == LEDGER_OK;
}

static void expirer_main(void *context)
{
    struct expirer *expirer = context;
    while (!worker_stopping(&expirer->worker)) {
        int pause_ms = PERIOD_MS;
        if (atomic_load(&expirer->service->prepared) && run_for_it(expirer) && !expire(expirer)) {
            resign(expirer);
            pause_ms += FAILED_MS;
        }
        worker_sleep_ns(&expirer->worker, pause_ms * CLOCK_NS_PER_MS);
    }
    resign(expirer); /* another daemon need not wait for the lease to end */
}

static bool open_clients(struct expirer *expirer, char *error_out, size_t error_size)
{
    struct service *service = expirer->service;
    const char *const servers[] = {service->config.redis_url, NULL};
    const struct seclock_options options =
        SECLOCK_OPTIONS(.servers = servers, .prefix = STOCK_PREFIX,
                        .lease_ms = (int)service->config.lease_ms,
                        .timeout_ms = (int)service->config.redis_timeout_ms);
    expirer->stock = stock_open(&service->stock, service->sale_cache, error_out, error_size);
    if (!expirer->stock)
        return false;
    if (seclock_open(&options, &expirer->locks) == SECLOCK_OK)
        return true;
    snprintf(error_out, error_size, "%s", seclock_error());
    return false;
}

static void expirer_free(struct expirer **expirer)
{
    seclock_close(&(*expirer)->locks);
    stock_close(&(*expirer)->stock);
    free(*expirer);
    *expirer = NULL;
}

struct expirer *expirer_start(struct service *service, char *error_out, size_t error_size)
{
    struct expirer *expirer = calloc(1, sizeof *expirer);
    if (!expirer)
        abort();
    expirer->service = service;
    if (!open_clients(expirer, error_out, error_size)) {
        expirer_free(&expirer);
        return NULL;
    }
    if (!worker_start(&expirer->worker, expirer_main, expirer))
        abort();
    return expirer;
}

void expirer_stop(struct expirer *expirer)
{
    if (expirer)
        worker_stop(&expirer->worker);
}

void expirer_join(struct expirer **expirer)
{
    if (!*expirer)
        return;
    worker_join(&(*expirer)->worker);
    expirer_free(expirer);
}
