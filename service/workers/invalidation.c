/* The invalidation listener: a thread that forgets cached stock when other daemons change it.
 *
 * A daemon that changes or retires a sale, or gives units back to it, publishes the sku in Redis.
 * Every daemon then drops its cache of that sale ("sold out", above all) and asks again
 * (sale_cache_on_message).
 *
 * why_forget_all: Redis keeps no messages for an absent subscriber, so messages may be lost
 * whenever the connection is down: after each reconnect the listener forgets all sales. */
#include "service/workers/workers.h"

#include "base/clock.h"
#include "lua/redis.h"
#include "service/request/faults.h"

enum { RETRY_MS = 50 };

/* Receives messages until the connection is lost, or the thread is told to stop. Waits for the
 * socket only after the last message received: one read may bring several, but makes the socket
 * readable only once. */
static void receive(struct service_worker *listener)
{
    char message[SALE_MESSAGE_SIZE];
    struct sale_cache *cache = listener->service->sale_cache;
    enum redis_event event;
    sale_cache_invalidate(cache); /* after subscribing: no later message is missed */
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
    struct service_worker *listener = context;
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

const struct worker_kind invalidation_listener_kind = {
    .name = "invalidation",
    .size = sizeof(struct service_worker),
    .servers = WORKER_OF_REDIS,
    .run = run,
};
