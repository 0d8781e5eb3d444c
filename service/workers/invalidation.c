/* The invalidation listener: a thread that forgets cached stock when other daemons change it.
 *
 * A daemon that changes a sale, or gives units back to it, publishes the sku in Redis. Each daemon
 * then forgets what it remembers of that sale ("sold out", above all) and asks again. That a sale
 * is retired is published as well (sale_cache_on_message).
 *
 * why_forget_all: Redis keeps no message for a subscriber that is away. Whenever the connection was
 * down a message may have been lost, so the listener forgets about every sale. */
#include "service/workers/workers.h"

#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/worker.h"
#include "lua/redis.h"
#include "service/request/faults.h"

enum { RETRY_MS = 50 };

struct invalidation_listener {
    struct worker thread;
    struct service *service;
    struct redis *redis; /* its own connection: a subscribed one takes no other commands */
};

/* Receives messages until the connection is lost, or the thread is told to stop. Waits for the
 * socket only after the last message that had arrived: one read may bring several, and the socket
 * is readable for them once. */
static void receive(struct invalidation_listener *listener)
{
    char message[SALE_MESSAGE_SIZE];
    struct sale_cache *cache = listener->service->sale_cache;
    enum redis_event event;
    sale_cache_invalidate(cache); /* after subscribing: from here on no message is missed */
    do {
        while ((event = redis_next_event(listener->redis, NULL, 0, message, sizeof message)) !=
               REDIS_EVENT_NONE)
            if (event == REDIS_EVENT_MESSAGE)
                sale_cache_on_message(cache, message);
    } while (redis_connected(listener->redis) &&
             worker_await_fd(&listener->thread, redis_fd(listener->redis)) &&
             redis_fill(listener->redis));
    sale_cache_invalidate(cache);
}

static void run(void *context)
{
    struct invalidation_listener *listener = context;
    prctl(PR_SET_NAME, "invalidation");
    while (!worker_stopping(&listener->thread)) {
        if (redis_subscribe(listener->redis, STOCK_CHANNEL) == REDIS_ANSWERED)
            receive(listener);
        else
            worker_sleep_ns(&listener->thread, RETRY_MS * CLOCK_NS_PER_MS);
        if (redis_fault(listener->redis)->count > 0 && !worker_stopping(&listener->thread))
            faults_log_redis(listener->redis, "not_subscribed",
                             "changes of other daemons are seen up to a second late");
    }
}

struct invalidation_listener *invalidation_listener_start(struct service *service, char *error_out,
                                                          size_t error_size)
{
    struct invalidation_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        abort();
    listener->service = service;
    listener->redis = redis_open(service->config.redis_url, (int)service->config.redis_timeout_ms,
                                 error_out, error_size);
    if (!listener->redis) {
        free(listener);
        return NULL;
    }
    if (!worker_start(&listener->thread, run, listener))
        abort();
    return listener;
}

void invalidation_listener_join(struct invalidation_listener **listener)
{
    if (*listener) {
        worker_join(&(*listener)->thread);
        redis_close(&(*listener)->redis);
    }
    free(*listener);
    *listener = NULL;
}
