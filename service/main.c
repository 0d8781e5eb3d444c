/* seckilld: starts every part in order, waits for a signal, stops them in reverse. */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "service/workers/index.h"
#include "service/config/config.h"
#include "service/workers/calls.h"
#include "service/workers/expiry.h"
#include "service/http/listen.h"
#include "service/http/loop.h"
#include "service/workers/orders.h"
#include "service/log.h"
#include "service/workers/invalidation.h"
#include "service/service.h"
#include "sql/ledger_setup.h"

enum {
    PARTS_MAX = 64,
    ERROR_MAX = 256,
    PREPARE_RETRY_MS = 200,
    FILES_OWN = 64, /* descriptors kept for what is there once */
    FILES_PER_THREAD = 16,
};

extern char **environ;

struct parts {
    struct service service;
    struct news *news;
    struct clerk *clerk;
    struct expirer *expirer;
    struct lane *lanes[PARTS_MAX];
    struct desk_thread *desks[CALL_WORKERS];
    struct http_thread *http_threads[PARTS_MAX];
    char error[ERROR_MAX];
};

static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Clients must not take the descriptors that the process needs for Redis and the ledger: where few
 * are allowed, fewer clients are let in. */
static void bound_clients(struct config *config)
{
    struct rlimit limit;
    rlim_t own =
        FILES_OWN + FILES_PER_THREAD * (rlim_t)(config->order_workers + config->http_threads);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= own + config->connections_max)
        return;
    config->connections_max = limit.rlim_cur > own ? (unsigned)(limit.rlim_cur - own) : 1;
    log_event(LOG_WARN, "few_files", "files=%llu connections_max=%u",
              (unsigned long long)limit.rlim_cur, config->connections_max);
}

static void service_open(struct service *service)
{
    const struct config *config = &service->config;
    service->stock = (struct stock_options){
        .strategy = config->strategy,
        .lock = config->lock,
        .lock_servers = config->lock_servers,
        .redis_url = config->redis_url,
        .mysql_url = config->mysql_url,
        .lease_ms = (int)config->lease_ms,
        .redis_timeout_ms = (int)config->redis_timeout_ms,
        .mysql_timeout_ms = (int)config->mysql_timeout_ms,
        .resolve_ms = (int)config->deadline_ms,
        .remember_left_ms = 1000,
        .rates = {config->rate_user_per_min, config->rate_user_burst, config->rate_address_per_min,
                  config->rate_address_burst},
    };
    bool networks = networks_parse(config->trusted_proxies, &service->proxies);
    assert(networks); /* the configuration was checked */
    service->sale_cache = sale_cache_open();
    service->orders = queue_open(config->queue_max);
    service->calls = queue_open(CALL_QUEUE_MAX);
}

static void service_close(struct service *service)
{
    queue_close(&service->calls);
    queue_close(&service->orders);
    sale_cache_close(&service->sale_cache);
}

static void learn_sale(const struct ledger_sale *sale, void *cache)
{
    sale_cache_put(cache, sale);
}

/* It serves all the same: who set it so may know why. */
static void warn_unless_durable(struct ledger *ledger)
{
    char why[64];
    if (ledger_durable(ledger, why, sizeof why) == LEDGER_NO)
        log_event(LOG_WARN, "ledger_not_durable", "setting=%s", LOG_QUOTE(why));
}

/* Creates the tables, numbers this process, learns the sales. False when the ledger is not there
 * (yet). */
static bool prepare(struct service *service, struct ledger *ledger)
{
    unsigned node = (unsigned)service->config.node_id;
    enum ledger_result result = ledger_migrate(ledger);
    if (result == LEDGER_OK && service->config.node_id < 0)
        result = ledger_node(ledger, &node);
    if (result == LEDGER_OK) {
        order_ids_init(&service->ids, node, NULL, NULL);
        result = ledger_sales_each(ledger, learn_sale, service->sale_cache);
    }
    if (result != LEDGER_OK) {
        log_event(LOG_WARN, "ledger_not_ready", "error=%s", LOG_QUOTE(ledger_error(ledger)));
        return false;
    }
    warn_unless_durable(ledger);
    atomic_store(&service->prepared, true);
    log_event(LOG_INFO, "prepared", "node=%u", node);
    return true;
}

static bool start_http_threads(struct parts *parts)
{
    struct config *config = &parts->service.config;
    char address[300];
    bound_clients(config);
    snprintf(address, sizeof address, "%s", config->listen);
    for (unsigned i = 0; i < config->http_threads; i++) {
        int fd = http_listen(address, config->http_threads > 1, address, sizeof address,
                             parts->error, ERROR_MAX);
        if (fd < 0)
            return false;
        parts->http_threads[i] = http_start(&parts->service, fd, parts->error, ERROR_MAX);
        if (!parts->http_threads[i])
            return false;
    }
    log_event(LOG_INFO, "listening", "address=%s", address);
    return true;
}

static bool start_workers(struct parts *parts)
{
    struct service *service = &parts->service;
    bool ok = true;
    for (unsigned i = 0; ok && i < service->config.order_workers; i++)
        ok = (parts->lanes[i] = lane_start(service, parts->error, ERROR_MAX)) != NULL;
    for (unsigned i = 0; ok && i < CALL_WORKERS; i++)
        ok = (parts->desks[i] = desk_start(service, parts->error, ERROR_MAX)) != NULL;
    if (ok)
        ok = (parts->news = news_start(service, parts->error, ERROR_MAX)) != NULL;
    if (ok)
        ok = (parts->clerk = clerk_start(service, parts->error, ERROR_MAX)) != NULL;
    if (ok)
        ok = (parts->expirer = expirer_start(service, parts->error, ERROR_MAX)) != NULL;
    return ok;
}

/* All are told first, so that they end side by side: the clerk and the expirer at once, the others
 * when the fronts have answered all they had accepted. */
static void stop(struct parts *parts)
{
    atomic_store(&parts->service.draining, true);
    clerk_stop(parts->clerk);
    expirer_stop(parts->expirer);
    for (unsigned i = 0; i < PARTS_MAX && parts->http_threads[i]; i++)
        http_wake(parts->http_threads[i]);
    for (unsigned i = 0; i < PARTS_MAX && parts->http_threads[i]; i++)
        http_join(parts->http_threads[i]);
    queue_stop(parts->service.orders);
    queue_stop(parts->service.calls);
    news_stop(parts->news);
    for (unsigned i = 0; i < PARTS_MAX; i++)
        lane_join(&parts->lanes[i]);
    for (unsigned i = 0; i < CALL_WORKERS; i++)
        desk_join(&parts->desks[i]);
    expirer_join(&parts->expirer);
    clerk_join(&parts->clerk);
    news_join(&parts->news);
    for (unsigned i = 0; i < PARTS_MAX; i++)
        http_close(&parts->http_threads[i]);
}

/* Signals are waited for, not handled; a second one while draining ends the process at once, which
 * every promise survives. */
static void *end_at_once(void *context)
{
    int number = 0;
    sigwait(context, &number);
    log_event(LOG_WARN, "ending_at_once", "signal=%d", number);
    _exit(128 + number);
}

static void wait_for_signal(struct service *service, struct ledger *ledger, const sigset_t *signals)
{
    const struct timespec retry = {.tv_nsec = PREPARE_RETRY_MS * 1000000L};
    int number = -1;
    while (number < 0 && !atomic_load(&service->prepared))
        if (!prepare(service, ledger))
            number = sigtimedwait(signals, NULL, &retry);
    while (number < 0)
        number = sigwaitinfo(signals, NULL);
    log_event(LOG_INFO, "draining", "signal=%d", number);
}

static int serve(struct parts *parts)
{
    static sigset_t signals;
    pthread_t ender;
    struct service *service = &parts->service;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    service_open(service);
    struct ledger *ledger = ledger_open(
        service->config.mysql_url, (int)service->config.mysql_timeout_ms, parts->error, ERROR_MAX);
    bool ok = ledger && start_workers(parts) && start_http_threads(parts);
    if (ok) {
        wait_for_signal(service, ledger, &signals);
        if (pthread_create(&ender, NULL, end_at_once, &signals) == 0)
            pthread_detach(ender);
    } else {
        log_event(LOG_ERROR, "cannot_start", "error=%s", LOG_QUOTE(parts->error));
    }
    stop(parts);
    ledger_close(&ledger);
    service_close(service);
    return ok ? 0 : 2;
}

int main(int argc, char **argv)
{
    (void)argc; /* argv ends in NULL */
    static struct parts parts;
    enum log_level level = LOG_INFO;
    enum config_result loaded = config_load(&parts.service.config, argv, environ, stdout, stderr);
    if (loaded != CONFIG_OK)
        return loaded == CONFIG_EXIT ? 0 : 2;
    log_level_parse(parts.service.config.log_level, &level);
    log_setup(level, STDERR_FILENO);
    config_log(&parts.service.config);
    raise_file_limit();
    int status = serve(&parts);
    log_event(LOG_INFO, "stopped", "status=%d", status);
    log_flush();
    config_free(&parts.service.config);
    return status;
}
