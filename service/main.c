/* seckilld: starts every part in order, waits for a signal, stops them in reverse. */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "service/config/config.h"
#include "service/config/endpoint.h"
#include "service/http/listen.h"
#include "service/http/listen_unix.h"
#include "service/http/loop.h"
#include "service/log.h"
#include "service/service.h"
#include "service/workers/calls.h"
#include "service/workers/expiry.h"
#include "service/workers/health.h"
#include "service/workers/index.h"
#include "service/workers/invalidation.h"
#include "service/workers/orders.h"

enum {
    THREADS_MAX = 64, /* of one kind: the upper end of order_workers and http_threads */
    ERROR_MAX = 256,
    HTTP_THREADS_MAX = THREADS_MAX + 1,
    PREPARE_RETRY_MS = 200,
    FILES_OWN = 64, /* descriptors kept for what is there once */
    FILES_PER_THREAD = 16,
};

extern char **environ;

struct parts {
    struct service service;
    struct ledger *ledger; /* for service_prepare */
    struct order_worker *order_workers[THREADS_MAX];
    struct call_worker_thread *call_workers[CALL_KINDS];
    struct invalidation_listener *invalidation_listener;
    struct order_indexer *order_indexer;
    struct expiry_worker *expiry_worker;
    struct health *health;
    struct listen_unix admin_socket;
    struct http_thread *http_threads[HTTP_THREADS_MAX]; /* with admin_listen its thread first */
    char error[ERROR_MAX];
};

/* ---- one part each ---- */

static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Clients must not take the descriptors that the daemon needs for Redis and the ledger: where it
 * may open few, it accepts fewer clients. */
static void bound_clients(struct config *config)
{
    struct rlimit limit;
    rlim_t threads = config->order_workers + config->http_threads;
    rlim_t own = FILES_OWN + FILES_PER_THREAD * threads;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= own + config->connections_max)
        return;
    config->connections_max = limit.rlim_cur > own ? (unsigned)(limit.rlim_cur - own) : 1;
    log_event(LOG_WARN, "few_files", "files=%llu connections_max=%u",
              (unsigned long long)limit.rlim_cur, config->connections_max);
}

static bool open_ledger(struct parts *parts)
{
    const struct config *config = &parts->service.config;
    parts->ledger = ledger_open(config->mysql_url, (int)config->mysql_timeout_ms, parts->error,
                                sizeof parts->error);
    return parts->ledger;
}

static bool start_order_workers(struct parts *parts)
{
    unsigned count = parts->service.config.order_workers;
    assert(count <= THREADS_MAX);
    for (unsigned i = 0; i < count; i++)
        if (!(parts->order_workers[i] =
                  order_worker_start(&parts->service, parts->error, sizeof parts->error)))
            return false;
    return true;
}

static bool start_call_workers(struct parts *parts)
{
    for (int kind = 0; kind < CALL_KINDS; kind++)
        if (!(parts->call_workers[kind] = call_worker_start(&parts->service, (enum call_kind)kind,
                                                            parts->error, sizeof parts->error)))
            return false;
    return true;
}

static bool start_background(struct parts *parts)
{
    struct service *service = &parts->service;
    parts->invalidation_listener =
        invalidation_listener_start(service, parts->error, sizeof parts->error);
    if (parts->invalidation_listener)
        parts->order_indexer = order_indexer_start(service, parts->error, sizeof parts->error);
    if (parts->order_indexer)
        parts->expiry_worker = expiry_worker_start(service, parts->error, sizeof parts->error);
    if (parts->expiry_worker)
        service->health = parts->health = health_start(service, parts->error, sizeof parts->error);
    return parts->health;
}

/* Starts the thread of admin_listen. */
static bool start_admin_thread(struct parts *parts)
{
    const char *where = parts->service.config.admin_listen, *path = endpoint_path(where);
    char address[300], why[ERROR_MAX - 32];
    int fd = path ? listen_unix_open(path, &parts->admin_socket, why, sizeof why)
                  : http_listen(where, false, address, sizeof address, why, sizeof why);
    if (fd < 0) {
        snprintf(parts->error, sizeof parts->error, "admin_listen: %s", why);
        return false;
    }
    parts->http_threads[0] =
        http_start(&parts->service, fd, HTTP_OPERATORS, parts->error, sizeof parts->error);
    if (parts->http_threads[0])
        log_event(LOG_INFO, "admin_listening", "address=%s", path ? LOG_QUOTE(where) : address);
    return parts->http_threads[0];
}

static bool start_http_threads(struct parts *parts)
{
    struct config *config = &parts->service.config;
    unsigned count = config->http_threads;
    bool apart = config->admin_listen[0] != '\0';
    char address[300];
    assert(count <= THREADS_MAX);
    bound_clients(config);
    if (apart && !start_admin_thread(parts))
        return false;
    snprintf(address, sizeof address, "%s", config->listen);
    for (unsigned i = 0; i < count; i++) {
        /* Port 0 becomes the port that the first thread got, for the others to share. */
        int fd = http_listen(address, count > 1, address, sizeof address, parts->error,
                             sizeof parts->error);
        if (fd < 0)
            return false;
        struct http_thread **thread = &parts->http_threads[apart + i];
        *thread = http_start(&parts->service, fd, apart ? HTTP_PUBLIC : HTTP_ALL, parts->error,
                             sizeof parts->error);
        if (!*thread)
            return false;
    }
    tokens_warn(config);
    log_event(LOG_INFO, "listening", "address=%s", address);
    return true;
}

/* ---- all of them ---- */

/* Servers need not be there yet: each part connects when it first needs to. HTTP comes last, so
 * that every request finds a worker. False with the reason in parts->error; stop ends the parts
 * that were started. */
static bool start(struct parts *parts)
{
    service_open(&parts->service);
    return open_ledger(parts) && start_order_workers(parts) && start_call_workers(parts) &&
           start_background(parts) && start_http_threads(parts);
}

/* The HTTP threads end when every request they accepted is answered, so the workers must outlive
 * them. Of the others all are told before any is joined: they end side by side. */
static void tell_to_stop(struct parts *parts)
{
    atomic_store(&parts->service.draining, true);
    expiry_worker_stop(parts->expiry_worker);
    order_indexer_stop(parts->order_indexer);
    for (unsigned i = 0; i < HTTP_THREADS_MAX && parts->http_threads[i]; i++)
        http_wake(parts->http_threads[i]);
    for (unsigned i = 0; i < HTTP_THREADS_MAX && parts->http_threads[i]; i++)
        http_join(parts->http_threads[i]);
    health_stop(parts->health); /* /readyz needed it until now */
    invalidation_listener_stop(parts->invalidation_listener);
    service_stop_queues(&parts->service);
}

/* In reverse of start. A part that was not started is NULL, which every function here accepts. */
static void stop(struct parts *parts)
{
    tell_to_stop(parts);
    health_join(&parts->health);
    expiry_worker_join(&parts->expiry_worker);
    order_indexer_join(&parts->order_indexer);
    invalidation_listener_join(&parts->invalidation_listener);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        call_worker_join(&parts->call_workers[kind]);
    for (unsigned i = 0; i < THREADS_MAX; i++)
        order_worker_join(&parts->order_workers[i]);
    /* Workers gave requests back to the HTTP threads until now. */
    for (unsigned i = 0; i < HTTP_THREADS_MAX; i++)
        http_close(&parts->http_threads[i]);
    listen_unix_remove(&parts->admin_socket);
    ledger_close(&parts->ledger);
    service_close(&parts->service);
}

/* ---- signals ---- */

/* Threads inherit the mask: signals are waited for in one place, not handled in any. */
static void block_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Returns when a signal says to stop. Until the ledger is there, tries again to prepare the
 * service, which serves meanwhile and answers 503. */
static void wait_for_signal(struct parts *parts, const sigset_t *signals)
{
    const struct timespec retry = {.tv_nsec = PREPARE_RETRY_MS * 1000000L};
    int number = -1;
    while (number < 0 && !atomic_load(&parts->service.prepared))
        if (!service_prepare(&parts->service, parts->ledger))
            number = sigtimedwait(signals, NULL, &retry);
    while (number < 0)
        number = sigwaitinfo(signals, NULL);
    log_event(LOG_INFO, "draining", "signal=%d", number);
}

static void *end_at_once(void *signals)
{
    int number = 0;
    sigwait(signals, &number);
    log_event(LOG_WARN, "ending_at_once", "signal=%d", number);
    _exit(128 + number);
}

/* A second signal while draining ends the process at once; every promise survives that. */
static void watch_for_second_signal(sigset_t *signals)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_at_once, signals) == 0)
        pthread_detach(thread);
}

static int serve(struct parts *parts)
{
    static sigset_t signals; /* static: the thread of end_at_once outlives this call */
    block_signals(&signals);
    bool started = start(parts);
    if (started) {
        wait_for_signal(parts, &signals);
        watch_for_second_signal(&signals);
    } else {
        log_event(LOG_ERROR, "cannot_start", "error=%s", LOG_QUOTE(parts->error));
    }
    stop(parts);
    return started ? 0 : 2;
}

int main(int argc, char **argv)
{
    static struct parts parts; /* static: zero, and too large for a stack */
    struct config *config = &parts.service.config;
    enum log_level level = LOG_INFO;
    (void)argc; /* argv ends in NULL */
    enum config_result loaded = config_load(config, argv, environ, stdout, stderr);
    if (loaded != CONFIG_OK)
        return loaded == CONFIG_EXIT ? 0 : 2;
    log_level_parse(config->log_level, &level);
    log_setup(level, STDERR_FILENO);
    config_log(config);
    raise_file_limit();
    int status = serve(&parts);
    log_event(LOG_INFO, "stopped", "status=%d", status);
    log_flush();
    config_free(config);
    return status;
}
