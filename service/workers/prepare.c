/* The preparer: a thread that prepares the ledger at the start, and retries until it answers. */
#include "service/workers/workers.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/request/faults.h"
#include "service/log/log.h"
#include "service/supervise.h"
#include "sql/server/server.h"

enum { RETRY_MS = 200, MIGRATION_NOTE_MS = 5000 };

/* ---- the tables ---- */

struct update {
    const struct worker *worker;
    int64_t noted_ms;
};

/* Signals that end the process are blocked. A serving daemon waits for them; without a worker only
 * this looks for them. */
static bool is_told_to_end(const struct update *update)
{
    sigset_t pending;
    if (update->worker)
        return worker_stopping(update->worker);
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* Copying a large table takes minutes: the log tells the operator what the start waits for. */
static bool go_on(const struct ledger_migration *now, void *context)
{
    struct update *update = context;
    if (now->waited_ms < update->noted_ms) /* another statement has begun */
        update->noted_ms = 0;
    if (now->waited_ms - update->noted_ms >= MIGRATION_NOTE_MS) {
        update->noted_ms = now->waited_ms;
        log_event(LOG_WARN, "migrating", "file=%s seconds=%lld waits_for=%s",
                  now->name ? now->name : "-", (long long)now->waited_ms / 1000,
                  LOG_QUOTE(now->holder ? now->holder : "-"));
        supervise_migrating(now->name ? now->name : "another daemon does", now->waited_ms / 1000);
    }
    return !is_told_to_end(update);
}

enum ledger_result preparer_migrate(struct ledger *ledger, const struct worker *worker)
{
    struct update update = {.worker = worker};
    return ledger_migrate(ledger, go_on, &update);
}

static enum ledger_result make_tables(const struct service_worker *preparer)
{
    struct ledger *ledger = preparer->ledger;
    struct ledger_schema schema;
    if (strcmp(preparer->service->config.update_tables, "on") == 0)
        return preparer_migrate(ledger, &preparer->thread);
    enum ledger_result result = ledger_schema_ask(ledger, &schema);
    if (result == LEDGER_NO)
        log_failure(LOG_ERROR, "tables_outdated", "ledger",
                    "address=%s missing=%u of=%u first=%s effect=%s",
                    LOG_QUOTE(ledger_place(ledger)), schema.missing, schema.files, schema.first,
                    LOG_QUOTE("orders are refused, 503 unavailable, until seckilld --migrate has "
                              "run; update_tables is off"));
    return result;
}

/* ---- the service: a step that refuses it for good sets service->refusal ---- */

/* Checks that the server has what the tables rely on. */
static enum ledger_result check_server(struct service *service, struct ledger *ledger)
{
    char unfit[LEDGER_UNFIT_SIZE];
    enum ledger_result result = ledger_fit(ledger, unfit);
    if (result == LEDGER_NO) {
        snprintf(service->refusal, sizeof service->refusal, "the ledger is unfit: %s", unfit);
        log_event(
            LOG_ERROR, "ledger_unfit", "address=%s error=%s effect=%s",
            LOG_QUOTE(ledger_server(ledger)), LOG_QUOTE(unfit),
            LOG_QUOTE("the daemon does not start: orders could be accepted that must not be"));
    }
    return result;
}

/* Orders' ids contain the pod's number, by which a proxy routes calls for them. */
static enum ledger_result claim_pod(struct service *service, struct ledger *ledger)
{
    unsigned found = 0;
    enum ledger_result result = ledger_pod_claim(ledger, service->config.pod, &found);
    if (result == LEDGER_NO)
        snprintf(service->refusal, sizeof service->refusal,
                 "the ledger is unfit: it is pod %u; the option pod says %u", found,
                 service->config.pod);
    return result;
}

/* No order is made before the clock is known. */
static enum ledger_result learn_clock(struct service *service, struct ledger *ledger)
{
    int64_t step_ms = 0;
    bool known = synced_clock_known(&service->clock) ||
                 synced_clock_measure(&service->clock, ledger, &step_ms);
    return known ? LEDGER_OK : LEDGER_FAILED;
}

static void learn_sale(const struct ledger_sale *sale, void *context)
{
    const struct service *service = context;
    sale_cache_put(service->sale_cache, sale);
}

/* Takes the steps up to the first that is not LEDGER_OK. LEDGER_NO comes with a line in the log. */
static enum ledger_result take_steps(struct service_worker *preparer)
{
    struct service *service = preparer->service;
    struct ledger *ledger = preparer->ledger;
    enum ledger_result result = make_tables(preparer);
    if (result == LEDGER_OK)
        result = check_server(service, ledger);
    if (result == LEDGER_OK)
        result = claim_pod(service, ledger);
    if (result == LEDGER_OK)
        result = learn_clock(service, ledger);
    if (result == LEDGER_OK && !node_keep(&service->node, &service->ids, ledger)) {
        node_refused(&service->node, service->refusal, sizeof service->refusal);
        return LEDGER_NO;
    }
    return result == LEDGER_OK ? ledger_sales_each(ledger, learn_sale, service) : result;
}

/* Creates the tables, leases this daemon's node and learns the sales. False when the ledger cannot
 * be reached (yet), has no node for this daemon or is unfit, or the thread was told to stop. */
static bool prepare(struct service_worker *preparer)
{
    struct service *service = preparer->service;
    struct ledger *ledger = preparer->ledger;
    assert(!atomic_load(&service->prepared)); /* then another thread keeps the node */
    enum ledger_result result = take_steps(preparer);
    if (result != LEDGER_OK && result != LEDGER_NO)
        faults_log_ledger(ledger, "ledger_not_ready",
                          "orders are refused, 503 unavailable, until the tables are ready");
    if (result != LEDGER_OK)
        return false;
    faults_log_damage(ledger);
    atomic_store(&service->prepared, true); /* publishes all of the above to other threads */
    log_event(LOG_INFO, "prepared", "pod=%u address=%s", service->config.pod,
              LOG_QUOTE(ledger_place(ledger)));
    return true;
}

static void run(void *self)
{
    struct service_worker *preparer = self;
    struct service *service = preparer->service;
    while (!worker_stopping(&preparer->thread) && !prepare(preparer)) {
        if (service->refusal[0] != '\0') { /* waiting would not help */
            atomic_store(&service->refused, true);
            return;
        }
        worker_sleep_ns(&preparer->thread, RETRY_MS * CLOCK_NS_PER_MS);
    }
}

static void close_preparer(void *self)
{
    struct service_worker *preparer = self;
    struct service *service = preparer->service;
    node_release(&service->node, &service->ids, preparer->ledger);
}

const struct worker_kind preparer_kind = {
    .name = "preparer",
    .size = sizeof(struct service_worker),
    .servers = WORKER_OF_LEDGER,
    .run = run,
    .close = close_preparer,
};
