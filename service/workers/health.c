/* Probes Redis and the ledger, and keeps the last answers.
 *
 * why_writes: a replica of Redis, a Redis without memory and a ledger set to read-only all answer a
 * ping, but take no order; nor does a Redis whose account lacks one of the commands that orders
 * need. Both probes are writes that change nothing, so they cost neither a line of Redis'
 * append-only file nor an fsync of the ledger.
 *
 * why_commits: a primary without its replicas, one whose disk is full and one whose backup comes to
 * its end take each write and answer no commit. So the renewal of the node's lease, which commits
 * every NODE_RENEW_MS, is a probe, too.
 *
 * why_one_is_enough: a lost master of a cluster affects only its own segments, and its replica
 * takes over within seconds. Meanwhile orders that find a segment elsewhere are accepted. */
#include "service/workers/health.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/url.h"
#include "lua/cluster/cluster.h"
#include "lua/command.h"
#include "lua/script.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"
#include "service/node.h"
#include "service/workers/workers.h"
#include "sql/server/server.h"

enum {
    PAUSE_MS = 250,        /* between two probes */
    ANSWER_AGE_MS = 1000,  /* up to this age an answer counts */
    TIMEOUT_MS_MAX = 1000, /* of a probe: a later answer would not count */
    SETTINGS_S = 10,       /* between two checks of a server's settings */
    POLICY_SIZE = 32,
};

struct probe;

struct probe_kind {
    struct worker_kind worker;
    const char *up, *down; /* log events */
    enum health_state (*ask)(struct probe *probe, const char **error_out);
};

/* A worker that probes one server. */
struct probe {
    struct service_worker base;
    int64_t settings_asked_ns;
    _Atomic int state;
    _Atomic int64_t answered_ns;
    _Atomic int64_t took_ns; /* duration of the last probe */

    /* For Redis: */
    char policy[POLICY_SIZE]; /* eviction policy, as last seen */
    _Atomic bool mute;        /* it refused to publish when last asked */
    char down[1024]; /* a cluster's masters that were down, with commas between; cut to fit */

    /* For the ledger: */
    struct ledger_weakness weakness; /* as last seen; its setting may be "" */
    char waits[LEDGER_WAIT_SIZE];    /* why commits wait; "": they do not */
    _Atomic int64_t oldest_ms;       /* age of the oldest write without an answer; 0: none */
    char server[URL_PLACE_SIZE];     /* the server last written to */
    _Atomic bool durable;            /* as far as is known */
};

/* Its workers are of struct probe. */
struct health {
    struct service_worker *probes[HEALTH_SERVER_COUNT];
};

static const struct probe *probe_of(const struct service_worker *worker)
{
    return (const struct probe *)worker;
}

const char *health_word(enum health_state state)
{
#define HEALTH_WORD(id, word) word,
    static const char *const words[] = {HEALTH_STATES(HEALTH_WORD)};
#undef HEALTH_WORD
    return words[state];
}

/* ---- the probes ---- */

/* An error reply of Redis begins with a word for its kind, behind the node's address in a
 * cluster. */
static enum health_state redis_refusal(const char *error)
{
    static const struct {
        const char *begin;
        enum health_state state;
    } kinds[] = {
        {"READONLY ", HEALTH_READ_ONLY},      {"OOM ", HEALTH_OUT_OF_MEMORY},
        {"MISCONF ", HEALTH_CANNOT_PERSIST},  {"LOADING ", HEALTH_LOADING},
        {"NOREPLICAS ", HEALTH_FEW_REPLICAS}, {"BUSY ", HEALTH_BUSY},
        {"NOPERM ", HEALTH_NO_PERMISSION},
    };
    const char *placed = strstr(error, ": ");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i].begin);
        if (strncmp(error, kinds[i].begin, length) == 0 ||
            (placed && strncmp(placed + 2, kinds[i].begin, length) == 0))
            return kinds[i].state;
    }
    return HEALTH_DOWN;
}

static void ask_policy(struct redis *redis, char policy_out[POLICY_SIZE])
{
    static const char label[] = "maxmemory_policy:";
    struct command ask = {.argc = 2, .argv = {"INFO", "memory"}};
    command_run(redis, &ask, 1);
    const char *text = ask.result == REDIS_ANSWERED ? command_text(&ask, -1, NULL) : NULL;
    const char *at = text ? strstr(text, label) : NULL;
    snprintf(policy_out, POLICY_SIZE, "noeviction"); /* for a server that does not tell */
    if (at)
        snprintf(policy_out, POLICY_SIZE, "%.*s", (int)strcspn(at + sizeof label - 1, "\r\n"),
                 at + sizeof label - 1);
    command_clear(&ask, 1);
}

/* Gets the server's policy, or that of a cluster's first master that evicts. */
static void ask_policies(struct redis *redis, char policy_out[POLICY_SIZE])
{
    struct cluster *cluster = redis_cluster(redis);
    if (!cluster) {
        ask_policy(redis, policy_out);
        return;
    }
    size_t count = cluster_masters(cluster);
    snprintf(policy_out, POLICY_SIZE, "noeviction");
    for (size_t i = 0; i < count && strcmp(policy_out, "noeviction") == 0; i++)
        ask_policy(cluster_master(cluster, i), policy_out);
}

/* True when the server's settings should be checked again. */
static bool settings_due(struct probe *probe)
{
    int64_t now_ns = clock_now_ns();
    if (probe->settings_asked_ns != 0 &&
        now_ns - probe->settings_asked_ns < SETTINGS_S * CLOCK_NS_PER_S)
        return false;
    probe->settings_asked_ns = now_ns;
    return true;
}

/* Only warns, at each change: when memory is full, Redis may drop any key, whoever filled it. That
 * costs no order, but a dropped counter must be recounted, and a dropped lock lets two workers meet
 * at the ledger. */
static void check_policy(struct probe *probe)
{
    struct redis *redis = probe->base.redis;
    char policy[POLICY_SIZE];
    ask_policies(redis, policy);
    if (strcmp(policy, "noeviction") != 0 && strcmp(policy, probe->policy) != 0)
        log_event(
            LOG_WARN, "redis_evicts", "address=%s maxmemory_policy=%s effect=%s",
            LOG_QUOTE(redis_place(redis)), LOG_QUOTE(policy),
            LOG_QUOTE("a Redis without memory drops counters and locks: orders get slower and "
                      "rate limits are forgotten; set noeviction"));
    memcpy(probe->policy, policy, sizeof policy);
    metrics_gauge_set(GAUGE_REDIS_EVICTS, strcmp(policy, "noeviction") != 0);
}

/* Only warns, at each change: accounts of Redis 7 have no channels unless they are given some. */
static void check_news(struct probe *probe)
{
    struct redis *redis = probe->base.redis;
    bool mute = redis_publish(redis, STOCK_PREFIX "health", "") == REDIS_FAILED &&
                redis_refusal(redis_error(redis)) == HEALTH_NO_PERMISSION;
    if (mute && !atomic_load(&probe->mute))
        log_event(LOG_WARN, "redis_news_refused", "address=%s error=%s effect=%s",
                  LOG_QUOTE(redis_place(redis)), LOG_QUOTE(redis_error(redis)),
                  LOG_QUOTE("changes of other daemons are seen up to a second late; see "
                            "--print-grants"));
    atomic_store(&probe->mute, mute);
}

bool health_news(const struct health *health)
{
    return !atomic_load(&probe_of(health->probes[HEALTH_REDIS])->mute);
}

/* ---- the masters of a cluster ---- */

/* A master, and a key in one of its slots. */
struct master {
    char place[URL_PLACE_SIZE];
    char key[CLUSTER_KEY_SIZE];
};

/* Lists the masters that gave no answer; returns their number. */
static size_t list_down(const struct master *masters, const struct script_call *calls, size_t count,
                        char *down_out, size_t size)
{
    size_t down = 0, used = 0;
    down_out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (calls[i].result == REDIS_ANSWERED)
            continue;
        int length =
            snprintf(down_out + used, size - used, "%s%s", down > 0 ? "," : "", masters[i].place);
        used = used + (size_t)length < size ? used + (size_t)length : size - 1;
        down++;
    }
    return down;
}

static void note_change(struct probe *probe, const char *down, size_t down_count, size_t count,
                        const char *error)
{
    metrics_gauge_set(GAUGE_REDIS_NODES_DOWN, (int64_t)down_count);
    if (strcmp(down, probe->down) == 0)
        return;
    snprintf(probe->down, sizeof probe->down, "%s", down);
    if (down_count == 0)
        log_event(LOG_INFO, "redis_nodes_up", "of=%zu", count);
    else
        log_event(LOG_WARN, "redis_nodes_down", "nodes=%zu of=%zu addresses=%s error=%s effect=%s",
                  down_count, count, LOG_QUOTE(down), LOG_QUOTE(error),
                  LOG_QUOTE("their segments sell nothing until they answer or replicas take over"));
}

/* Probes all masters concurrently. True when at least one takes orders. Logs each change of the set
 * of those that do not, and sets their metric. */
static bool ask_masters(struct probe *probe, struct redis *redis)
{
    struct cluster *cluster = redis_cluster(redis);
    size_t count = cluster_masters(cluster);
    if (count == 0)
        return false;
    struct master *masters = memory_must(calloc(count, sizeof *masters));
    struct script_call *calls = memory_must(calloc(count, sizeof *calls));
    char down[sizeof probe->down];
    for (size_t i = 0; i < count; i++) {
        snprintf(masters[i].place, URL_PLACE_SIZE, "%s", redis_place(cluster_master(cluster, i)));
        cluster_master_key(cluster, i, STOCK_PREFIX "health:", masters[i].key);
        script_begin(&calls[i], SCRIPT_health_probe);
        script_key(&calls[i], masters[i].key);
    }
    script_run(redis, calls, count);
    size_t down_count = list_down(masters, calls, count, down, sizeof down);
    note_change(probe, down, down_count, count, redis_error(redis));
    free(calls);
    free(masters);
    return down_count < count;
}

/* After a refusal the script's text goes again, as it does with the first order of a connection. */
static enum health_state ask_redis(struct probe *probe, const char **error_out)
{
    struct redis *redis = probe->base.redis;
    struct script_call call;
    bool takes_orders;
    if (redis_cluster(redis)) {
        takes_orders = ask_masters(probe, redis);
    } else {
        script_begin(&call, SCRIPT_health_probe);
        script_key(&call, STOCK_PREFIX "health");
        script_run(redis, &call, 1);
        takes_orders = call.result == REDIS_ANSWERED;
    }
    *error_out = redis_error(redis);
    if (!takes_orders) {
        redis_forget_scripts(redis);
        return redis_refusal(*error_out);
    }
    if (settings_due(probe)) {
        check_policy(probe);
        check_news(probe);
    }
    return HEALTH_OK;
}

bool health_durable(const struct health *health)
{
    return atomic_load(&probe_of(health->probes[HEALTH_LEDGER])->durable);
}

/* Only warns, at each change: the operator may intend it. */
static void check_durable(struct probe *probe)
{
    struct ledger *ledger = probe->base.ledger;
    struct ledger_weakness weakness = {.setting = ""};
    if (!settings_due(probe))
        return;
    enum ledger_result durable = ledger_durable(ledger, &weakness);
    if (durable == LEDGER_FAILED) /* the next probe reports it */
        return;
    atomic_store(&probe->durable, durable == LEDGER_OK);
    atomic_store(&probe->base.service->replicated, weakness.replicated);
    metrics_gauge_set(GAUGE_LEDGER_DURABLE, durable == LEDGER_OK);
    if (durable == LEDGER_NO && strcmp(weakness.setting, probe->weakness.setting) != 0)
        log_event(LOG_WARN, "ledger_not_durable", "setting=%s address=%s effect=%s advice=%s",
                  LOG_QUOTE(weakness.setting), LOG_QUOTE(ledger_server(ledger)),
                  LOG_QUOTE(weakness.effect), LOG_QUOTE(weakness.advice));
    probe->weakness = weakness;
}

static void doubt_node(struct probe *probe)
{
    struct service *service = probe->base.service;
    if (atomic_load(&service->prepared))
        node_doubt(&service->node);
}

/* Another server may have other settings, so checks them at once. */
static void note_server(struct probe *probe)
{
    const char *server = ledger_server(probe->base.ledger);
    if (strcmp(server, probe->server) == 0)
        return;
    if (probe->server[0] != '\0') {
        log_event(LOG_WARN, "ledger_moved", "address=%s from=%s", LOG_QUOTE(server),
                  LOG_QUOTE(probe->server));
        probe->settings_asked_ns = 0;
        doubt_node(probe);
    }
    snprintf(probe->server, sizeof probe->server, "%s", server);
}

/* Renews the node's lease: this thread runs often enough and off the orders' path. */
static enum health_state keep_node(struct probe *probe)
{
    struct service *service = probe->base.service;
    bool kept = !atomic_load(&service->prepared) ||
                node_keep(&service->node, &service->ids, probe->base.ledger);
    return kept ? HEALTH_OK : HEALTH_NO_NODE;
}

/* The daemon follows a step at once. A clock that has stepped may step again, so the daemon is not
 * ready until the clock has been steady for a while. */
static enum health_state check_clock(struct probe *probe)
{
    struct synced_clock *clock = &probe->base.service->clock;
    int64_t step_ms = 0;
    synced_clock_measure(clock, probe->base.ledger,
                         &step_ms); /* the next probe reports a failure */
    if (step_ms != 0)
        log_event(LOG_WARN, "ledger_clock_stepped", "address=%s by_ms=%lld effect=%s",
                  LOG_QUOTE(ledger_server(probe->base.ledger)), (long long)step_ms,
                  LOG_QUOTE("windows and expiry follow the new time; not ready until the clock "
                            "is steady for a second"));
    if (!synced_clock_known(clock))
        return HEALTH_UNKNOWN;
    return synced_clock_steady(clock) ? HEALTH_OK : HEALTH_CLOCK;
}

/* Keeps the node's lease, unless so many writes wait that a further one would fail. */
static enum health_state keep_lease(struct probe *probe)
{
    struct ledger *ledger = probe->base.ledger;
    bool full = ledger_wait(ledger).full;
    enum health_state kept = full ? HEALTH_OK : keep_node(probe);
    bool waits = full || (ledger_wait(ledger).count > 0 && !probe->base.service->node.answered);
    if (!waits)
        probe->waits[0] = '\0';
    else if (probe->waits[0] == '\0')
        ledger_wait_describe(ledger, probe->waits);
    return waits ? HEALTH_COMMITS_WAIT : kept;
}

static enum health_state ask_ledger(struct probe *probe, const char **error_out)
{
    enum ledger_write answer = ledger_try_write(probe->base.ledger);
    enum health_state kept, clock;
    *error_out = ledger_error(probe->base.ledger);
    ledger_look(probe->base.ledger);
    atomic_store(&probe->oldest_ms, ledger_wait(probe->base.ledger).ms);
    if (answer == LEDGER_WRITE_OK || answer == LEDGER_WRITE_NO_TABLES)
        note_server(probe);
    switch (answer) {
    case LEDGER_WRITE_OK:
        check_durable(probe);
        clock = check_clock(probe);
        kept = keep_lease(probe);
        if (kept == HEALTH_COMMITS_WAIT)
            *error_out = probe->waits;
        return kept == HEALTH_OK ? clock : kept;
    case LEDGER_WRITE_READ_ONLY:
        doubt_node(probe);
        return HEALTH_READ_ONLY;
    case LEDGER_WRITE_NO_TABLES: /* it answers; a start makes the tables */
        return atomic_load(&probe->base.service->prepared) ? HEALTH_DOWN : check_clock(probe);
    case LEDGER_WRITE_FAILED:
        doubt_node(probe);
        break;
    }
    return ledger_split(probe->base.ledger) ? HEALTH_SPLIT : HEALTH_DOWN;
}

/* ---- the threads ---- */

static const char *effect_of(enum health_state state)
{
    if (state == HEALTH_NO_NODE)
        return "orders are refused, 503 no_order_id, until it leases a node";
    if (state == HEALTH_CLOCK)
        return "orders go on; the daemon is not ready until its clock is steady";
    return "orders are refused, 503 unavailable, until it is up";
}

static const char *place_of(const struct service_worker *worker)
{
    return worker->ledger ? ledger_place(worker->ledger) : redis_place(worker->redis);
}

static void log_change(const struct probe *probe, enum health_state state, const char *error)
{
    const struct probe_kind *kind = (const struct probe_kind *)probe->base.kind;
    const char *place = place_of(&probe->base);
    if (state == HEALTH_OK)
        log_event(LOG_INFO, kind->up, "address=%s", LOG_QUOTE(place));
    else if (state == HEALTH_SPLIT)
        log_event(LOG_ERROR, "ledger_split", "address=%s error=%s effect=%s", LOG_QUOTE(place),
                  LOG_QUOTE(error),
                  LOG_QUOTE("orders are refused, 503 unavailable, until one server alone takes "
                            "writes: set the others to read_only"));
    else
        log_event(LOG_WARN, kind->down, "reason=%s address=%s error=%s effect=%s",
                  health_word(state), LOG_QUOTE(place), LOG_QUOTE(error),
                  LOG_QUOTE(effect_of(state)));
}

static void run(void *self)
{
    struct probe *probe = self;
    const struct probe_kind *kind = (const struct probe_kind *)probe->base.kind;
    do {
        const char *error;
        int64_t start_ns = clock_now_ns();
        enum health_state state = kind->ask(probe, &error);
        int64_t end_ns = clock_now_ns();
        atomic_store(&probe->took_ns, end_ns - start_ns);
        int64_t gap_ns = end_ns - atomic_exchange(&probe->answered_ns, end_ns);
        if (atomic_exchange(&probe->state, (int)state) != (int)state)
            log_change(probe, state, error);
        else if (state == HEALTH_OK && gap_ns > ANSWER_AGE_MS * CLOCK_NS_PER_MS) {
            log_change(probe, HEALTH_DOWN, "no answer for more than a second");
            log_change(probe, HEALTH_OK, "");
        }
    } while (worker_sleep_ns(&probe->base.thread, PAUSE_MS * CLOCK_NS_PER_MS));
}

static const struct probe_kind redis_probe = {
    .worker.name = "health-redis",
    .worker.size = sizeof(struct probe),
    .worker.servers = WORKER_OF_REDIS,
    .worker.redis_ms_max = TIMEOUT_MS_MAX,
    .worker.run = run,
    .up = "redis_up",
    .down = "redis_down",
    .ask = ask_redis,
};

static const struct probe_kind ledger_probe = {
    .worker.name = "health-ledger",
    .worker.size = sizeof(struct probe),
    .worker.servers = WORKER_OF_LEDGER,
    .worker.ledger_ms_max = TIMEOUT_MS_MAX,
    .worker.run = run,
    .up = "ledger_up",
    .down = "ledger_down",
    .ask = ask_ledger,
};

/* Starts as UNKNOWN, which stays valid for as long as an answer does. */
static struct service_worker *open_probe(const struct probe_kind *kind, struct service *service)
{
    struct service_worker *worker = service_worker_open(&kind->worker, service, 0);
    struct probe *probe = (struct probe *)worker;
    if (probe) {
        atomic_store(&probe->answered_ns, clock_now_ns());
        atomic_store(&probe->durable, true);
        atomic_store(&service->replicated, true);
    }
    return worker;
}

bool health_start(struct service *service)
{
    service->health = memory_must(calloc(1, sizeof *service->health));
    struct service_worker **probes = service->health->probes;
    probes[HEALTH_REDIS] = open_probe(&redis_probe, service);
    if (probes[HEALTH_REDIS])
        probes[HEALTH_LEDGER] = open_probe(&ledger_probe, service);
    if (!probes[HEALTH_LEDGER])
        return false;
    service_worker_start(probes[HEALTH_REDIS]);
    service_worker_start(probes[HEALTH_LEDGER]);
    return true;
}

void health_stop(struct health *health)
{
    for (int i = 0; health && i < HEALTH_SERVER_COUNT; i++)
        service_worker_stop(health->probes[i]);
}

void health_join(struct health **health)
{
    for (int i = 0; *health && i < HEALTH_SERVER_COUNT; i++)
        service_worker_join(&(*health)->probes[i]);
    free(*health);
    *health = NULL;
}

/* ---- the readers ---- */

int64_t health_oldest_write_ms(const struct health *health)
{
    return atomic_load(&probe_of(health->probes[HEALTH_LEDGER])->oldest_ms);
}

enum health_state health_state(const struct health *health, enum health_server server,
                               int64_t now_ns)
{
    const struct probe *probe = probe_of(health->probes[server]);
    bool old = now_ns - atomic_load(&probe->answered_ns) > ANSWER_AGE_MS * CLOCK_NS_PER_MS;
    enum health_state state = (enum health_state)atomic_load(&probe->state);
    return old && state != HEALTH_COMMITS_WAIT ? HEALTH_DOWN : state; /* it tries one meanwhile */
}

bool health_ready(const struct health *health, int64_t now_ns)
{
    return atomic_load(&health->probes[HEALTH_REDIS]->service->prepared) &&
           health_state(health, HEALTH_LEDGER, now_ns) == HEALTH_OK &&
           health_state(health, HEALTH_REDIS, now_ns) == HEALTH_OK;
}

const char *health_place(const struct health *health, enum health_server server)
{
    return place_of(health->probes[server]);
}

int64_t health_took_ns(const struct health *health, enum health_server server)
{
    return atomic_load(&probe_of(health->probes[server])->took_ns);
}
