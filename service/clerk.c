/* Files committed orders under their users, behind everybody's back.
 *
 * Every process has a clerk; in the ledger they keep out of each other's way. One that is late
 * costs those who ask for a user's orders some time, and nothing else. */
#include "service/clerk.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "service/log.h"
#include "sql/ledger_index.h"
#include "sql/ledger_list.h"

enum {
    PAUSE_S = 2,
    BUSY_ORDERS = 65536, /* filed between two pauses while lanes have more to do than they can */
};

struct clerk {
    pthread_t thread;
    struct service *service;
    struct ledger *ledger;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stop;
};

static void file_orders(struct clerk *clerk)
{
    struct service *service = clerk->service;
    enum ledger_result result = LEDGER_OK;
    size_t total = 0, count = 0;
    while (result == LEDGER_OK && !atomic_load(&service->draining) &&
           !(total >= BUSY_ORDERS && queue_waiting(service->orders))) {
        result = ledger_index_orders(clerk->ledger, &count);
        total += count;
    }
    if (result != LEDGER_OK && result != LEDGER_NO)
        log_event(LOG_WARN, "orders_not_filed", "error=%s", LOG_QUOTE(ledger_error(clerk->ledger)));
}

static void *clerk_main(void *context)
{
    struct clerk *clerk = context;
    struct timespec until;
    pthread_mutex_lock(&clerk->mutex);
    while (!clerk->stop) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += PAUSE_S;
        if (pthread_cond_timedwait(&clerk->wake, &clerk->mutex, &until) == 0 ||
            !atomic_load(&clerk->service->prepared))
            continue;
        pthread_mutex_unlock(&clerk->mutex);
        file_orders(clerk);
        pthread_mutex_lock(&clerk->mutex);
    }
    pthread_mutex_unlock(&clerk->mutex);
    return NULL;
}

struct clerk *clerk_start(struct service *service, char *error_out, size_t error_size)
{
    struct clerk *clerk = calloc(1, sizeof *clerk);
    if (!clerk)
        abort();
    clerk->service = service;
    clerk->ledger = ledger_open(service->config.mysql_url, (int)service->config.mysql_timeout_ms,
                                error_out, error_size);
    if (!clerk->ledger) {
        free(clerk);
        return NULL;
    }
    pthread_mutex_init(&clerk->mutex, NULL);
    pthread_cond_init(&clerk->wake, NULL);
    if (pthread_create(&clerk->thread, NULL, clerk_main, clerk) != 0)
        abort();
    return clerk;
}

void clerk_stop(struct clerk **clerk)
{
    struct clerk *old = *clerk;
    if (old) {
        pthread_mutex_lock(&old->mutex);
        old->stop = true;
        pthread_cond_signal(&old->wake);
        pthread_mutex_unlock(&old->mutex);
        pthread_join(old->thread, NULL);
        pthread_cond_destroy(&old->wake);
        pthread_mutex_destroy(&old->mutex);
        ledger_close(&old->ledger);
    }
    free(old);
    *clerk = NULL;
}
