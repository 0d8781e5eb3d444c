/* The preparer: a thread that prepares the ledger at the start, and tries again until it is
 * there. */
#include "service/workers/workers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/worker.h"
#include "service/request/faults.h"
#include "service/log/log.h"
#include "service/schema.h"
#include "sql/server/server.h"

enum {
    RETRY_MS = 200,
    ERROR_MAX = 256,
};

struct preparer {
    struct worker thread;
    struct service *service;
    struct ledger *ledger; /* its own connection */
    _Atomic bool refused;  /* `error` says why */
    char error[ERROR_MAX];
};

/* The number stands in the ids of its orders: a proxy finds them by it. */
static bool claim_pod(struct service *service, struct ledger *ledger)
{
    unsigned found = 0;
    enum ledger_result result = ledger_pod_claim(ledger, service->config.pod, &found);
    if (result == LEDGER_NO)
        snprintf(service->unfit, sizeof service->unfit, "it is pod %u; the option pod says %u",
                 found, service->config.pod);
    else if (result != LEDGER_OK)
        schema_log_failure(ledger);
    return result == LEDGER_OK;
}

static void learn_sale(const struct ledger_sale *sale, void *context)
{
    const struct service *service = context;
    sale_cache_put(service->sale_cache, sale);
}

/* No order is made before. */
static bool learn_clock(struct service *service, struct ledger *ledger)
{
    int64_t step_ms = 0;
    bool known = synced_clock_known(&service->clock) ||
                 synced_clock_measure(&service->clock, ledger, &step_ms);
    if (!known)
        schema_log_failure(ledger);
    return known;
}

/* Creates the tables, leases this daemon's node and learns the sales. False after a line in the log
 * when the ledger cannot be reached (yet), has no node for this daemon, is not fit for orders, or
 * `worker` was told to stop. */
static bool prepare(struct service *service, struct ledger *ledger, const struct worker *worker)
{
    bool update = strcmp(service->config.update_tables, "on") == 0;
    assert(!atomic_load(&service->prepared)); /* from then on another thread keeps the node */
    if (!schema_prepare(ledger, update, worker) || !schema_fits(ledger, service->unfit) ||
        !claim_pod(service, ledger) || !learn_clock(service, ledger) ||
        !node_keep(&service->node, &service->ids, ledger))
        return false;
    if (ledger_sales_each(ledger, learn_sale, service) != LEDGER_OK) {
        schema_log_failure(ledger);
        return false;
    }
    faults_log_damage(ledger);
    atomic_store(&service->prepared, true); /* publishes all of the above to the other threads */
    log_event(LOG_INFO, "prepared", "pod=%u address=%s", service->config.pod,
              LOG_QUOTE(ledger_place(ledger)));
    return true;
}

/* Waiting does not help. */
static bool is_refused(struct preparer *preparer)
{
    const struct service *service = preparer->service;
    if (service->unfit[0] == '\0')
        return node_refused(&service->node, preparer->error, sizeof preparer->error);
    snprintf(preparer->error, sizeof preparer->error, "the ledger is unfit: %s", service->unfit);
    return true;
}

static void run(void *context)
{
    struct preparer *preparer = context;
    struct service *service = preparer->service;
    prctl(PR_SET_NAME, "preparer");
    while (!worker_stopping(&preparer->thread) &&
           !prepare(service, preparer->ledger, &preparer->thread)) {
        if (is_refused(preparer)) {
            atomic_store(&preparer->refused, true);
            return;
        }
        worker_sleep_ns(&preparer->thread, RETRY_MS * CLOCK_NS_PER_MS);
    }
}

struct preparer *preparer_open(struct service *service, char *error_out, size_t error_size)
{
    struct preparer *preparer = calloc(1, sizeof *preparer);
    if (!preparer)
        abort();
    preparer->service = service;
    preparer->ledger = ledger_open(service->stock.mysql_url, service->stock.mysql_timeout_ms,
                                   error_out, error_size);
    if (preparer->ledger)
        return preparer;
    free(preparer);
    return NULL;
}

void preparer_start(struct preparer *preparer)
{
    if (!worker_start(&preparer->thread, run, preparer))
        abort();
}

bool preparer_refused(const struct preparer *preparer, char *error_out, size_t error_size)
{
    if (!atomic_load(&preparer->refused))
        return false;
    snprintf(error_out, error_size, "%s", preparer->error);
    return true;
}

void preparer_stop(struct preparer *preparer)
{
    if (preparer)
        worker_stop(&preparer->thread);
}

void preparer_join(struct preparer **preparer_pointer)
{
    struct preparer *preparer = *preparer_pointer;
    *preparer_pointer = NULL;
    if (!preparer)
        return;
    worker_join(&preparer->thread);
    node_release(&preparer->service->node, &preparer->service->ids, preparer->ledger);
    ledger_close(&preparer->ledger);
    free(preparer);
}
