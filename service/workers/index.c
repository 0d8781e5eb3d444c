/* Files committed orders under their users, behind everybody's back.
 *
 * Every process has a clerk; in the ledger they keep out of each other's way. One that is late
 * costs those who ask for a user's orders some time, and nothing else. */
#include "service/workers/index.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/worker.h"
#include "service/log.h"
#include "sql/ledger_index.h"
#include "sql/ledger_list.h"

enum {
    PAUSE_S = 2,
    BUSY_ORDERS = 65536, /* filed between two pauses while lanes have more to do than they can */
};

struct clerk {
    struct worker worker;
    struct service *service;
    struct ledger *ledger;
};

static void file_orders(struct clerk *clerk)
{
    struct service *service = clerk->service;
    enum ledger_result result = LEDGER_OK;
    size_t total = 0, count = 0;
    while (result == LEDGER_OK && !worker_stopping(&clerk->worker) &&
           !(total >= BUSY_ORDERS && queue_waiting(service->orders))) {
        result = ledger_index_orders(clerk->ledger, &count);
        total += count;
    }
    if (result != LEDGER_OK && result != LEDGER_NO)
        log_event(LOG_WARN, "orders_not_filed", "error=%s", LOG_QUOTE(ledger_error(clerk->ledger)));
}

static void clerk_main(void *context)
{
    struct clerk *clerk = context;
    while (worker_sleep_ns(&clerk->worker, PAUSE_S * CLOCK_NS_PER_S))
        if (atomic_load(&clerk->service->prepared))
            file_orders(clerk);
}

struct clerk *clerk_start(struct service *service, char *error_out, size_t error_size)
{
    struct clerk *clerk = calloc(1, sizeof *clerk);
    if (!clerk)
        abort();
    clerk->service = service;
    clerk->ledger = ledger_open(service->config.mysql_url, (int)service->config.mysql_timeout_ms,
                                error_out, error_size);
    if (!clerk->ledger) {
        free(clerk);
        return NULL;
    }
    if (!worker_start(&clerk->worker, clerk_main, clerk))
        abort();
    return clerk;
}

void clerk_stop(struct clerk *clerk)
{
    if (clerk)
        worker_stop(&clerk->worker);
}

void clerk_join(struct clerk **clerk)
{
    if (*clerk) {
        worker_join(&(*clerk)->worker);
        ledger_close(&(*clerk)->ledger);
    }
    free(*clerk);
    *clerk = NULL;
}
