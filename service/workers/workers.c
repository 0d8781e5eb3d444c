/* The workers: starts and ends all but health. */
#include "service/workers/workers.h"

#include <assert.h>

static bool start_order_workers(struct workers *workers, struct service *service, char *error_out,
                                size_t error_size)
{
    unsigned count = service->config.order_workers;
    assert(count <= ORDER_WORKERS_MAX);
    for (unsigned i = 0; i < count; i++)
        if (!(workers->order_workers[i] = order_worker_start(service, error_out, error_size)))
            return false;
    return true;
}

static bool start_call_workers(struct workers *workers, struct service *service, char *error_out,
                               size_t error_size)
{
    for (int kind = 0; kind < CALL_KINDS; kind++)
        if (!(workers->call_workers[kind] =
                  call_worker_start(service, (enum call_kind)kind, error_out, error_size)))
            return false;
    return true;
}

static bool start_background(struct workers *workers, struct service *service, char *error_out,
                             size_t error_size)
{
    workers->expiry_worker = expiry_worker_start(service, error_out, error_size);
    if (workers->expiry_worker)
        workers->invalidation_listener =
            invalidation_listener_start(service, error_out, error_size);
    if (workers->invalidation_listener)
        workers->preparer = preparer_open(service, error_out, error_size);
    return workers->preparer;
}

bool workers_start(struct workers *workers, struct service *service, char *error_out,
                   size_t error_size)
{
    return start_order_workers(workers, service, error_out, error_size) &&
           start_call_workers(workers, service, error_out, error_size) &&
           start_background(workers, service, error_out, error_size);
}

int64_t workers_turned_ns(const struct workers *workers)
{
    int64_t oldest_ns = INT64_MAX;
    for (unsigned i = 0; i < ORDER_WORKERS_MAX && workers->order_workers[i]; i++) {
        int64_t turned_ns = order_worker_turned_ns(workers->order_workers[i]);
        if (turned_ns < oldest_ns)
            oldest_ns = turned_ns;
    }
    return oldest_ns;
}

void workers_stop(struct workers *workers)
{
    preparer_stop(workers->preparer);
    expiry_worker_stop(workers->expiry_worker);
}

void workers_join(struct workers *workers)
{
    expiry_worker_join(&workers->expiry_worker);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        call_worker_join(&workers->call_workers[kind]);
    for (unsigned i = 0; i < ORDER_WORKERS_MAX; i++)
        order_worker_join(&workers->order_workers[i]);
    invalidation_listener_join(&workers->invalidation_listener);
}
