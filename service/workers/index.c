/* The order indexer: a thread that indexes committed orders by user, in the background.
 *
 * Every daemon has one; ledger_index_orders skips the commits that another daemon is indexing. A
 * late indexer makes GET /user/{user_id}/orders slower and nothing worse: that call also reads the
 * commits that are not indexed yet. */
#include "service/workers/index.h"

#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/worker.h"
#include "service/faults.h"
#include "service/metrics.h"
#include "sql/orders/ledger_index.h"

enum {
    PAUSE_S = 2,
    LATE_PASSES = 2,    /* after which the few commits that are left of a rush are indexed, too */
    MERGED_BUCKETS = 8, /* looked at in a pass */
    /* Orders indexed between two pauses while new orders wait: these have the ledger first. */
    BUSY_ORDERS = 65536,
};

struct order_indexer {
    struct worker thread;
    struct service *service;
    struct ledger *ledger; /* its own connection */
    unsigned passes;       /* since the last that indexed whatever waited */
    unsigned bucket;       /* to be merged next */
};

static void index_orders(struct order_indexer *indexer)
{
    enum ledger_result result = LEDGER_OK;
    size_t total = 0, count = 0;
    size_t min = LEDGER_INDEX_BATCHES;
    if (++indexer->passes >= LATE_PASSES) {
        indexer->passes = 0;
        min = 1;
    }
    while (result == LEDGER_OK && !worker_stopping(&indexer->thread) &&
           !(total >= BUSY_ORDERS && queue_waiting(indexer->service->orders))) {
        result = ledger_index_orders(indexer->ledger, min, &count);
        total += count;
        min = LEDGER_INDEX_BATCHES;
    }
    if (result != LEDGER_OK && result != LEDGER_NO)
        faults_log_ledger(indexer->ledger, "orders_not_indexed",
                          "none on orders; a user's list of orders reads more and is slower");
    else
        fault_clear(ledger_fault(indexer->ledger));
}

/* For how long the first order that is not indexed has waited; its id has the ledger's time. */
static int64_t late_ms(const struct order_indexer *indexer, uint64_t waiting)
{
    return waiting > 0
               ? synced_clock_ms(&indexer->service->clock) - (int64_t)order_id_time_ms(waiting)
               : 0;
}

/* Tells up to when all orders are indexed. Without an answer that moment stays, and so gets old. */
static void note_lag(struct order_indexer *indexer)
{
    int64_t now_ms = clock_wall_ms();
    uint64_t waiting = 0;
    if (ledger_index_waiting(indexer->ledger, &waiting) == LEDGER_OK)
        atomic_store(&indexer->service->indexed_s, (now_ms - late_ms(indexer, waiting)) / 1000);
    fault_clear(ledger_fault(indexer->ledger));
}

/* A few buckets after the other: what is left to be merged later does no harm. */
static void merge_rows(struct order_indexer *indexer)
{
    enum ledger_result result = LEDGER_OK;
    for (int i = 0; i < MERGED_BUCKETS && result != LEDGER_FAILED; i++) {
        result = ledger_index_merge(indexer->ledger, indexer->bucket);
        if (result == LEDGER_NO)
            indexer->bucket = (indexer->bucket + 1) % LEDGER_INDEX_BUCKETS;
    }
}

/* New orders have the ledger first: while they wait nothing is merged. */
static void work(struct order_indexer *indexer)
{
    index_orders(indexer);
    note_lag(indexer);
    if (!queue_waiting(indexer->service->orders))
        merge_rows(indexer);
}

static void run(void *context)
{
    struct order_indexer *indexer = context;
    prctl(PR_SET_NAME, "order-indexer");
    while (worker_sleep_ns(&indexer->thread, PAUSE_S * CLOCK_NS_PER_S))
        if (atomic_load(&indexer->service->prepared)) /* before, the tables may not be there */
            work(indexer);
}

struct order_indexer *order_indexer_start(struct service *service, char *error_out,
                                          size_t error_size)
{
    struct order_indexer *indexer = calloc(1, sizeof *indexer);
    if (!indexer)
        abort();
    indexer->service = service;
    indexer->ledger = ledger_open(service->stock.mysql_url, service->stock.mysql_timeout_ms,
                                  error_out, error_size);
    if (!indexer->ledger) {
        free(indexer);
        return NULL;
    }
    if (!worker_start(&indexer->thread, run, indexer))
        abort();
    return indexer;
}

void order_indexer_stop(struct order_indexer *indexer)
{
    if (indexer)
        worker_stop(&indexer->thread);
}

void order_indexer_join(struct order_indexer **indexer)
{
    if (*indexer) {
        worker_join(&(*indexer)->thread);
        ledger_close(&(*indexer)->ledger);
    }
    free(*indexer);
    *indexer = NULL;
}
