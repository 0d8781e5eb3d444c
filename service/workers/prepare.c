/* The preparer: a thread that prepares a shard's ledger at the start, and tries again until it is
 * there. */
#include "service/workers/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/worker.h"

enum {
    RETRY_MS = 200,
    SETTLE_MS = 5000, /* for the first try: the other shards' sales wait no longer for it */
    ERROR_MAX = 256,
};

struct preparer {
    struct worker thread;
    struct shard *shard;
    struct ledger *ledger; /* its own connection */
    _Atomic bool refused;  /* `error` says why */
    char error[ERROR_MAX];
};

/* Waiting does not help. */
static bool is_refused(struct preparer *preparer)
{
    const struct shard *shard = preparer->shard;
    if (shard->unfit[0] == '\0')
        return node_refused(&shard->node, preparer->error, sizeof preparer->error);
    snprintf(preparer->error, sizeof preparer->error, "the ledger is unfit: %s", shard->unfit);
    return true;
}

static void run(void *context)
{
    struct preparer *preparer = context;
    struct shard *shard = preparer->shard;
    prctl(PR_SET_NAME, "preparer");
    while (!worker_stopping(&preparer->thread) &&
           !shard_prepare(shard, preparer->ledger, &preparer->thread)) {
        atomic_store(&shard->settle_ns, clock_now_ns());
        if (is_refused(preparer)) {
            atomic_store(&preparer->refused, true);
            return;
        }
        worker_sleep_ns(&preparer->thread, RETRY_MS * CLOCK_NS_PER_MS);
    }
}

struct preparer *preparer_open(struct shard *shard, char *error_out, size_t error_size)
{
    struct preparer *preparer = calloc(1, sizeof *preparer);
    if (!preparer)
        abort();
    preparer->shard = shard;
    preparer->ledger =
        ledger_open(shard->stock.mysql_url, shard->stock.mysql_timeout_ms, error_out, error_size);
    if (preparer->ledger)
        return preparer;
    free(preparer);
    return NULL;
}

void preparer_start(struct preparer *preparer)
{
    atomic_store(&preparer->shard->settle_ns, clock_now_ns() + SETTLE_MS * CLOCK_NS_PER_MS);
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
    node_release(&preparer->shard->node, &preparer->shard->ids, preparer->ledger);
    ledger_close(&preparer->ledger);
    free(preparer);
}
