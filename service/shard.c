/* A shard: one ledger of the daemon, with everything that talks to it. */
#include "service/shard.h"

#include <assert.h>
#include <string.h>

#include "service/log.h"
#include "service/schema.h"

void shard_open(struct shard *shard)
{
    const struct config *config = shard->config;
    order_ids_init(&shard->ids, NULL, NULL, shard->number);
    node_init(&shard->node, (int)config->node_id);
    shard->orders = queue_open(config->queue_max);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        shard->calls[kind] =
            queue_open(call_kinds[kind].places < config->call_queue_max ? call_kinds[kind].places
                                                                        : config->call_queue_max);
}

void shard_close(struct shard *shard)
{
    for (int kind = 0; kind < CALL_KINDS; kind++)
        queue_close(&shard->calls[kind]);
    queue_close(&shard->orders);
}

void shard_stop_queues(struct shard *shard)
{
    for (int kind = 0; kind < CALL_KINDS; kind++)
        queue_stop(shard->calls[kind]);
    queue_stop(shard->orders);
}

static void learn_sale(const struct ledger_sale *sale, void *context)
{
    const struct shard *shard = context;
    sale_cache_put(shard->sale_cache, sale);
}

bool shard_prepare(struct shard *shard, struct ledger *ledger, const struct worker *worker)
{
    bool update = strcmp(shard->config->update_tables, "on") == 0;
    assert(!atomic_load(&shard->prepared)); /* from then on another thread keeps the node */
    if (!schema_prepare(ledger, update, worker) || !node_keep(&shard->node, &shard->ids, ledger))
        return false;
    if (ledger_sales_each(ledger, learn_sale, shard) != LEDGER_OK) {
        schema_log_failure(ledger);
        return false;
    }
    atomic_store(&shard->prepared, true); /* publishes all of the above to the other threads */
    log_event(LOG_INFO, "prepared", NULL);
    return true;
}
