/* The threads of one shard: order workers, call workers, order indexer, expiry worker, preparer. */
#include "service/workers/shard_threads.h"

#include <assert.h>

static bool start_order_workers(struct shard_threads *threads, struct shard *shard, char *error_out,
                                size_t error_size)
{
    unsigned count = shard->config->order_workers;
    assert(count <= ORDER_WORKERS_MAX);
    for (unsigned i = 0; i < count; i++)
        if (!(threads->order_workers[i] = order_worker_start(shard, error_out, error_size)))
            return false;
    return true;
}

static bool start_call_workers(struct shard_threads *threads, struct shard *shard, char *error_out,
                               size_t error_size)
{
    for (int kind = 0; kind < CALL_KINDS; kind++)
        if (!(threads->call_workers[kind] =
                  call_worker_start(shard, (enum call_kind)kind, error_out, error_size)))
            return false;
    return true;
}

static bool start_background(struct shard_threads *threads, struct shard *shard, char *error_out,
                             size_t error_size)
{
    threads->order_indexer = order_indexer_start(shard, error_out, error_size);
    if (threads->order_indexer)
        threads->expiry_worker = expiry_worker_start(shard, error_out, error_size);
    if (threads->expiry_worker)
        threads->preparer = preparer_open(shard, error_out, error_size);
    return threads->preparer;
}

bool shard_threads_start(struct shard_threads *threads, struct shard *shard, char *error_out,
                         size_t error_size)
{
    return start_order_workers(threads, shard, error_out, error_size) &&
           start_call_workers(threads, shard, error_out, error_size) &&
           start_background(threads, shard, error_out, error_size);
}

int64_t shard_threads_turned_ns(const struct shard_threads *threads)
{
    int64_t oldest_ns = INT64_MAX;
    for (unsigned i = 0; i < ORDER_WORKERS_MAX && threads->order_workers[i]; i++) {
        int64_t turned_ns = order_worker_turned_ns(threads->order_workers[i]);
        if (turned_ns < oldest_ns)
            oldest_ns = turned_ns;
    }
    return oldest_ns;
}

void shard_threads_stop(struct shard_threads *threads)
{
    preparer_stop(threads->preparer);
    expiry_worker_stop(threads->expiry_worker);
    order_indexer_stop(threads->order_indexer);
}

void shard_threads_join(struct shard_threads *threads)
{
    expiry_worker_join(&threads->expiry_worker);
    order_indexer_join(&threads->order_indexer);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        call_worker_join(&threads->call_workers[kind]);
    for (unsigned i = 0; i < ORDER_WORKERS_MAX; i++)
        order_worker_join(&threads->order_workers[i]);
}

void shard_threads_release(struct shard_threads *threads)
{
    preparer_join(&threads->preparer);
}
