/* seckilld: starts every part in order, waits for a signal, stops them in reverse. */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/config/config.h"
#include "service/http/server.h"
#include "service/log/log.h"
#include "service/supervise.h"
#include "service/service.h"
#include "service/setup.h"
#include "service/workers/health.h"
#include "service/live/live.h"
#include "service/workers/workers.h"

enum {
    READY_POLL_MS = 20,
    COMMIT_TRIES = 6, /* tries of a transaction, each bounded by the time-outs, and a spare */
    STOP_MS = 30000,  /* for all threads to end, besides the time for work under way */
    FILES_OWN = 64,   /* descriptors kept for process-wide use */
    FILES_PER_THREAD = 16,
    OPERATORS_PART = 4, /* operators get at most a quarter of the clients' descriptors */
};

extern char **environ;

struct parts {
    struct service service;
    struct workers workers;
    struct http_server *http_server;
    char **argv;               /* main's, for reload */
    int64_t patience_until_ns; /* latest time to let clients in */
};

/* ---- single parts ---- */

static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Clients must not take the descriptors that the daemon needs for Redis and the ledger: with few
 * descriptors it accepts fewer clients. */
static void bound_clients(struct service *service)
{
    const struct config *config = &service->config;
    struct rlimit limit;
    rlim_t threads = config->order_workers + config->http_threads;
    rlim_t own = FILES_OWN + HTTP_FILES_EXTRA + FILES_PER_THREAD * threads;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        limit.rlim_cur >= own + service->operators_max + config->connections_max)
        return;
    rlim_t left = limit.rlim_cur > own + OPERATORS_PART ? limit.rlim_cur - own : OPERATORS_PART;
    if (service->operators_max > left / OPERATORS_PART)
        service->operators_max = (unsigned)(left / OPERATORS_PART);
    left -= service->operators_max;
    if (service->connections_max > left)
        service->connections_max = (unsigned)left;
    log_event(
        LOG_WARN, "few_files", "files=%llu connections_max=%u effect=%s",
        (unsigned long long)limit.rlim_cur, service->connections_max,
        LOG_QUOTE("fewer clients may connect than configured; raise the limit of open files"));
}

static bool open_http(struct parts *parts)
{
    bound_clients(&parts->service);
    parts->http_server = http_server_open(&parts->service);
    if (!parts->http_server)
        return false;
    int64_t now_ns = clock_now_ns(), patience_ns = http_server_patience_ns(parts->http_server);
    parts->patience_until_ns = patience_ns < INT64_MAX - now_ns ? now_ns + patience_ns : INT64_MAX;
    return true;
}

/* ---- all parts ---- */

/* Servers may still be down: each part connects when it first needs to. The threads of HTTP come
 * last, so that every request finds all parts; the live thread needs HTTP's port. False with the
 * reason in service.error; stop ends the parts that were started. */
static bool start(struct parts *parts)
{
    struct service *service = &parts->service;
    service_open(service);
    if (!workers_start(&parts->workers, service) || !health_start(service) || !open_http(parts) ||
        !live_start(service, http_server_address(parts->http_server)) ||
        !http_server_start_admin(parts->http_server))
        return false;
    service_worker_start(parts->workers.preparer);
    return true;
}

static bool let_clients_in(struct parts *parts)
{
    return http_server_started(parts->http_server) || http_server_start(parts->http_server);
}

/* Advances the start: lets clients in when that is due. False, with the reason in service.error,
 * when they cannot be let in, or the ledger or node refuses this daemon. */
static bool advance(struct parts *parts)
{
    int64_t now_ns = clock_now_ns();
    if (atomic_load(&parts->service.refused)) {
        memcpy(parts->service.error, parts->service.refusal, REASON_SIZE);
        return false;
    }
    bool due = now_ns >= parts->patience_until_ns || health_ready(parts->service.health, now_ns);
    return !due || let_clients_in(parts);
}

/* The HTTP threads end when every request they accepted is answered, so workers must outlive them.
 * The other threads are all told before any is joined, so that they end concurrently. */
static void tell_to_stop(struct parts *parts)
{
    atomic_store(&parts->service.phase, SERVICE_DRAINS);
    workers_stop(&parts->workers);
    http_server_drain(parts->http_server);
    live_stop(parts->service.live);
    health_stop(parts->service.health); /* /readyz needed it until now */
    service_stop_queues(&parts->service);
}

/* Stops in reverse of start. A part not started is NULL, which every function here accepts. */
static void stop(struct parts *parts)
{
    tell_to_stop(parts);
    live_join(&parts->service.live);
    health_join(&parts->service.health); /* it renews the node that the preparer gives back */
    workers_join(&parts->workers);
    /* Until now workers could return requests to the HTTP threads. */
    http_server_close(&parts->http_server);
    service_close(&parts->service);
}

/* ---- signals ---- */

/* Threads inherit the mask: main alone waits for signals, and no thread handles any. */
static void block_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGHUP);
    sigaddset(signals, SIGUSR1); /* from drain_ask */
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* ---- the service manager ---- */

static void tell_manager(struct parts *parts)
{
    const struct config *config = &parts->service.config;
    int64_t now_ns = clock_now_ns();
    const struct supervise_view view = {
        .prepared = atomic_load(&parts->service.prepared),
        .lets_clients_in = http_server_started(parts->http_server),
        .redis = health_state(parts->service.health, HEALTH_REDIS, now_ns),
        .ledger = health_state(parts->service.health, HEALTH_LEDGER, now_ns),
        .now_ns = now_ns,
        .http_turned_ns = http_server_turned_ns(parts->http_server),
        .worker_turned_ns = workers_turned_ns(&parts->workers),
        .patience_ns = COMMIT_TRIES * CLOCK_NS_PER_MS *
                       ((int64_t)config->mysql_timeout_ms + config->redis_timeout_ms),
    };
    supervise_tell(&view);
}

static void reload(struct parts *parts)
{
    notify_send("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(clock_now_ns() / 1000));
    reload_config(&parts->service, parts->argv, environ);
    supervise_reloaded();
}

/* ---- until the end ---- */

/* How long main may wait for a signal: until the start, the end or the manager needs it. */
static int64_t patience_ns(struct parts *parts)
{
    int64_t ns = supervise_pause_ns();
    int64_t due_ns = drain_due_ns(&parts->service.drain), left_ns = due_ns - clock_now_ns();
    if (!atomic_load(&parts->service.prepared) || !http_server_started(parts->http_server))
        return READY_POLL_MS * CLOCK_NS_PER_MS;
    if (due_ns != INT64_MAX && left_ns < ns)
        ns = left_ns > 0 ? left_ns : 0;
    return ns;
}

/* Waits for the next signal; 0: other work is due. */
static int next_signal(struct parts *parts, const sigset_t *signals)
{
    int64_t ns = patience_ns(parts);
    const struct timespec pause = {.tv_sec = ns / CLOCK_NS_PER_S, .tv_nsec = ns % CLOCK_NS_PER_S};
    int number = ns == INT64_MAX ? sigwaitinfo(signals, NULL) : sigtimedwait(signals, NULL, &pause);
    return number > 0 ? number : 0;
}

/* Completes the start, and serves until a signal or a call says to stop. False, with the reason in
 * service.error, when the start fails. */
static bool run_until_stop(struct parts *parts, const sigset_t *signals)
{
    int number = 0;
    while (number != SIGTERM && number != SIGINT) {
        if (drain_closes(&parts->service.drain)) {
            log_event(LOG_INFO, "draining", "signal=0");
            return true;
        }
        if (number == SIGHUP)
            reload(parts);
        if (!advance(parts))
            return false;
        tell_manager(parts);
        number = next_signal(parts, signals);
    }
    /* A daemon that was never ready got no clients from a balancer. */
    bool prepared = atomic_load(&parts->service.prepared);
    drain_signal(&parts->service.drain, prepared ? parts->service.config.lame_duck_ms : 0);
    log_event(LOG_INFO, "draining", "signal=%d", number);
    return true;
}

static struct {
    sigset_t signals;
    struct drain *drain;
    unsigned lame_duck_ms;
    bool called; /* a call began the end: a first signal only shortens it */
} watched;       /* static, like all it points to: the thread outlives main */

static void *end_at_once(void *argument)
{
    int number = 0;
    (void)argument;
    sigwait(&watched.signals, &number);
    if (watched.called) {
        drain_signal(watched.drain, watched.lame_duck_ms);
        log_event(LOG_INFO, "draining", "signal=%d", number);
        sigwait(&watched.signals, &number);
    }
    log_event(LOG_WARN, "ending_at_once", "signal=%d effect=%s", number,
              LOG_QUOTE("requests under way get no answer; accepted orders stay"));
    log_flush();
    _exit(128 + number);
}

/* A second signal while draining ends the process at once; every promise survives that. */
static void watch_for_second_signal(struct service *service)
{
    pthread_t thread;
    sigemptyset(&watched.signals); /* SIGHUP stays blocked: too late to reload */
    sigaddset(&watched.signals, SIGTERM);
    sigaddset(&watched.signals, SIGINT);
    watched.drain = &service->drain;
    watched.lame_duck_ms = service->config.lame_duck_ms;
    watched.called = !service->drain.signalled;
    if (pthread_create(&thread, NULL, end_at_once, NULL) == 0)
        pthread_detach(thread);
}

/* A call may have set a time other than the manager's unit expects. */
static void tell_stopping(struct parts *parts)
{
    int64_t ms =
        drain_state(&parts->service.drain).left_ms + parts->service.config.drain_ms + STOP_MS;
    notify_send("STOPPING=1\nEXTEND_TIMEOUT_USEC=%lld\nSTATUS=Answers what is under way",
                (long long)ms * 1000);
}

static int serve(struct parts *parts, const sigset_t *signals)
{
    bool started = start(parts) && run_until_stop(parts, signals);
    if (started) {
        tell_stopping(parts);
        watch_for_second_signal(&parts->service);
        drain_wait(&parts->service.drain);
    } else {
        log_event(LOG_ERROR, "cannot_start", "error=%s", LOG_QUOTE(parts->service.error));
    }
    stop(parts);
    return started ? 0 : 2;
}

int main(int argc, char **argv)
{
    static struct parts parts; /* static: zero, and too large for a stack */
    sigset_t signals;
    struct config *config = &parts.service.config;
    (void)argc;              /* argv ends in NULL */
    block_signals(&signals); /* first: an early SIGHUP must not end the process */
    enum config_result loaded = config_load(config, argv, environ, stdout, stderr);
    if (loaded != CONFIG_OK)
        return loaded == CONFIG_EXIT ? 0 : 2;
    config_setup_log(config);
    if (config->mode != CONFIG_SERVE)
        return setup_run(config);
    config_log(config);
    if (!notify_setup())
        log_event(LOG_WARN, "notify_socket_invalid", "value=%s",
                  LOG_QUOTE(getenv("NOTIFY_SOCKET")));
    raise_file_limit();
    parts.argv = argv;
    int status = serve(&parts, &signals);
    log_event(LOG_INFO, "stopped", "status=%d", status);
    log_flush();
    config_free(config);
    return status;
}
