/* A shard: one ledger of the daemon, with everything that talks to it. */
#include "service/shard.h"

#include <assert.h>
#include <string.h>

#include "service/faults.h"
#include "service/log.h"
#include "service/schema.h"
#include "sql/ledger_shard.h"

static uint64_t clock_of_ids(void *clock)
{
    return (uint64_t)shard_clock_ms(clock);
}

void shard_open(struct shard *shard)
{
    const struct config *config = shard->config;
    shard_clock_init(&shard->clock);
    order_ids_init(&shard->ids, clock_of_ids, &shard->clock, shard->number);
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

/* A list in another order, or a ledger of somebody else's, would sell skus twice. */
static bool claim_number(struct shard *shard, struct ledger *ledger)
{
    unsigned found = 0;
    enum ledger_result result = ledger_shard_claim(ledger, shard->number, &found);
    if (result == LEDGER_NO)
        log_failure(LOG_ERROR, "shard_mismatch", "ledger", "address=%s shard=%u found=%u effect=%s",
                    LOG_QUOTE(ledger_place(ledger)), shard->number, found,
                    LOG_QUOTE("the orders of its sales are refused; mysql_url must list each shard "
                              "in its old place"));
    else if (result != LEDGER_OK)
        schema_log_failure(ledger);
    return result == LEDGER_OK;
}

static void learn_sale(const struct ledger_sale *sale, void *context)
{
    const struct shard *shard = context;
    const struct sale *known = NULL;
    unsigned section = sale_cache_enter(shard->sale_cache);
    if (!sale_cache_put(shard->sale_cache, sale, shard->number) &&
        (known = sale_cache_find(shard->sale_cache, sale->sku)))
        log_failure(LOG_ERROR, "sku_on_two_shards", "ledger", "sku=%s shard=%u other=%u effect=%s",
                    sale->sku, shard->number, sale_shard(known),
                    LOG_QUOTE("the sale is sold on the other shard alone"));
    sale_cache_leave(shard->sale_cache, section);
}

/* No order is made before. */
static bool learn_clock(struct shard *shard, struct ledger *ledger)
{
    int64_t step_ms = 0;
    bool known =
        shard_clock_known(&shard->clock) || shard_clock_measure(&shard->clock, ledger, &step_ms);
    if (!known)
        schema_log_failure(ledger);
    return known;
}

bool shard_prepare(struct shard *shard, struct ledger *ledger, const struct worker *worker)
{
    bool update = strcmp(shard->config->update_tables, "on") == 0;
    assert(!atomic_load(&shard->prepared)); /* from then on another thread keeps the node */
    if (!schema_prepare(ledger, update, worker) || !schema_fits(ledger, shard->unfit) ||
        !claim_number(shard, ledger) || !learn_clock(shard, ledger) ||
        !node_keep(&shard->node, &shard->ids, ledger))
        return false;
    if (ledger_sales_each(ledger, learn_sale, shard) != LEDGER_OK) {
        schema_log_failure(ledger);
        return false;
    }
    faults_log_damage(ledger);
    atomic_store(&shard->prepared, true); /* publishes all of the above to the other threads */
    log_event(LOG_INFO, "prepared", "shard=%u address=%s", shard->number,
              LOG_QUOTE(ledger_place(ledger)));
    return true;
}
