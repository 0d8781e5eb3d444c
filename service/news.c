/* Hears from other processes that a sale has units again. Whenever the connection was down, news
 * may have been missed: then the memory of every sale is forgotten. */
#include "service/news.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "lua/redis.h"

enum { POLL_MS = 100, RETRY_MS = 50 };

struct news {
    pthread_t thread;
    struct service *service;
    struct redis *redis;
    _Atomic bool stop;
};

static void nap(void)
{
    struct timespec span = {.tv_nsec = RETRY_MS * 1000000L};
    nanosleep(&span, NULL);
}

/* Hears messages until the connection is lost. */
static void hear(struct news *news)
{
    char sku[LEDGER_IDENTIFIER_SIZE];
    enum redis_result result = REDIS_ANSWERED;
    sale_cache_invalidate(news->service->sale_cache);
    while (result != REDIS_UNKNOWN && !atomic_load(&news->stop)) {
        result = redis_next_message(news->redis, POLL_MS, sku, sizeof sku);
        struct sale *sale =
            result == REDIS_ANSWERED ? sale_cache_find(news->service->sale_cache, sku) : NULL;
        if (sale)
            sale_invalidate(sale);
    }
    sale_cache_invalidate(news->service->sale_cache);
}

static void *news_main(void *context)
{
    struct news *news = context;
    while (!atomic_load(&news->stop)) {
        if (redis_subscribe(news->redis, STOCK_CHANNEL) == REDIS_ANSWERED)
            hear(news);
        else
            nap();
    }
    return NULL;
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
    if (pthread_create(&news->thread, NULL, news_main, news) != 0)
        abort();
    return news;
}

void news_stop(struct news **news)
{
    if (*news) {
        atomic_store(&(*news)->stop, true);
        pthread_join((*news)->thread, NULL);
        redis_close(&(*news)->redis);
    }
    free(*news);
    *news = NULL;
}
