/* Hears from other processes that a sale has units again. Whenever the connection was down, news
 * may have been missed: then the memory of every sale is forgotten. */
#include "service/workers/invalidation.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/worker.h"
#include "lua/redis.h"

enum { RETRY_MS = 50 };

struct news {
    struct worker worker;
    struct service *service;
    struct redis *redis;
};

/* Hears messages until the connection is lost, or the thread is told to stop. Waits only when all
 * that has arrived was taken: a read may bring several messages, and the socket tells of them
 * once. */
static void hear(struct news *news)
{
    char sku[IDENTIFIER_SIZE];
    enum redis_result result = REDIS_ANSWERED;
    sale_cache_invalidate(news->service->sale_cache);
    while (result != REDIS_UNKNOWN &&
           (result == REDIS_ANSWERED || worker_await_fd(&news->worker, redis_fd(news->redis))) &&
           !worker_stopping(&news->worker)) {
        result = redis_next_message(news->redis, 0, sku, sizeof sku);
        struct sale *sale =
            result == REDIS_ANSWERED ? sale_cache_find(news->service->sale_cache, sku) : NULL;
        if (sale)
            sale_invalidate(sale);
    }
    sale_cache_invalidate(news->service->sale_cache);
}

static void news_main(void *context)
{
    struct news *news = context;
    while (!worker_stopping(&news->worker)) {
        if (redis_subscribe(news->redis, STOCK_CHANNEL) == REDIS_ANSWERED)
            hear(news);
        else
            worker_sleep_ns(&news->worker, RETRY_MS * CLOCK_NS_PER_MS);
    }
}

struct news *news_start(struct service *service, char *error_out, size_t error_size)
{
    struct news *news = calloc(1, sizeof *news);
    if (!news)
        abort();
    news->service = service;
    news->redis = redis_open(service->config.redis_url, (int)service->config.redis_timeout_ms,
                             error_out, error_size);
    if (!news->redis) {
        free(news);
        return NULL;
    }
    if (!worker_start(&news->worker, news_main, news))
        abort();
    return news;
}

void news_stop(struct news *news)
{
    if (news)
        worker_stop(&news->worker);
}

void news_join(struct news **news)
{
    if (*news) {
        worker_join(&(*news)->worker);
        redis_close(&(*news)->redis);
    }
    free(*news);
    *news = NULL;
}
