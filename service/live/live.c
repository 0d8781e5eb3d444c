/* The live thread: reads once a second what pages, metrics and the progress line show.
 *
 * why_a_thread: neither orders nor HTTP threads wait for these readings, and however often they are
 * asked for, the servers are asked once.
 *
 * why_health_first: a hanging server would delay each turn by a time limit. So a server known to be
 * down is not asked until it is up again. */
#include "service/live/live.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "service/live/admin_actions.h"
#include "service/live/live_events.h"
#include "service/live/live_group.h"
#include "service/request/faults.h"
#include "service/request/prepared.h"
#include "service/workers/health.h"
#include "service/workers/workers.h"

enum {
    REDIS_MS_MAX = 500,
    LEDGER_MS_MAX = 1000,
    LEAVE_MS_MAX = 200,  /* longest wait for Redis at the end of the daemon */
    BEGIN_MS_MAX = 1000, /* longest wait of the first turn for readiness */
    BEGIN_PAUSE_MS = 10,
    PROCESS_TURNS = 2, /* turns between readings of the process */
    REFUNDS_TURNS = 5, /* turns between counts of refunds: very many take a while */
};

static const double ns_per_ms = 1e6;

struct live {
    struct service_worker base;
    struct live_group *group;
    struct live_sales *sales;
    struct live_events *events;
    struct progress progress;
    bool redis_answers, ledger_answers; /* in this turn */

    char name[LIVE_NAME_SIZE], address[300], started_at[LEDGER_TIME_SIZE];
    struct rates rates;
    double cpu_s; /* when the rates were taken */
    unsigned turns;

    pthread_mutex_t mutex; /* guards the members below */
    struct process_stats process;
    bool refunds_known;
    struct ledger_refunds_due refunds; /* as last counted */
    struct prepared *page;
};

/* ---- texts from outside ---- */

/* If the text is not UTF-8, replaces each byte that is not ASCII with a question mark. */
static void clean_text(char *text)
{
    json_t *string = json_string(text); /* NULL for a text that is not UTF-8 */
    for (char *at = text; !string && *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    json_decref(string);
}

static json_t *text_json(const char *text)
{
    char *clean = memory_must(strdup(text));
    clean_text(clean);
    json_t *string = memory_must(json_string(clean));
    free(clean);
    return string;
}

/* ---- this daemon's own report ---- */

/* Cuts the host's name, so that the rest still tells daemons apart. */
static void make_name(struct live *live, const char *address)
{
    char host[64] = "";
    const char *colon = strrchr(address, ':');
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "?");
    snprintf(live->name, sizeof live->name, "%s%.32s#%ld", host, colon ? colon : "",
             (long)getpid());
    snprintf(live->address, sizeof live->address, "%s", address);
    clean_text(live->name);
    clean_text(live->address);
}

/* Rounds for people, to multiples of `unit`. */
static json_t *rounded(double value, double unit)
{
    return isnan(value) ? json_null() : json_real(round(value / unit) * unit);
}

static const char *state_word(struct service *service, int64_t now_ns)
{
    if (atomic_load(&service->phase) != SERVICE_SERVES)
        return "draining";
    return health_ready(service->health, now_ns) ? "ready" : "not_ready";
}

static json_t *server(const struct health *health, enum health_server server, const char *kind,
                      int64_t now_ns)
{
    enum health_state state = health_state(health, server, now_ns);
    double took_ns = (double)health_took_ns(health, server);
    return json_pack("{s:s, s:o, s:s, s:o}", "kind", kind, "name",
                     text_json(health_place(health, server)), "state", health_word(state), "ms",
                     state == HEALTH_OK ? rounded(took_ns / ns_per_ms, 0.001) : json_null());
}

/* The daemon's load since the last call. */
static json_t *load(struct live *live, int64_t now_ns)
{
    struct service *service = live->base.service;
    struct rates_figures figures;
    double cpu_s = process_stats_cpu_s(), cpu_before_s = live->cpu_s;
    unsigned open = atomic_load(&service->public_use.open) + atomic_load(&service->admin_use.open);
    rates_take(&live->rates, now_ns, service->config.order_workers, &figures);
    live->cpu_s = cpu_s;
    json_t *per_s = json_pack("{s:o, s:o, s:o, s:o, s:o}", "accepted",
                              rounded(figures.per_s[RATES_ACCEPTED], 0.1), "replayed",
                              rounded(figures.per_s[RATES_REPLAYED], 0.1), "sold_out",
                              rounded(figures.per_s[RATES_SOLD_OUT], 0.1), "refused",
                              rounded(figures.per_s[RATES_REFUSED], 0.1), "errors",
                              rounded(figures.per_s[RATES_ERRORS], 0.1));
    return json_pack(
        "{s:o, s:o, s:o, s:I, s:I, s:o, s:{s:o, s:o}, s:I, s:o, s:I}", "per_s", per_s, "p50_ms",
        rounded(figures.p50_ms, 0.001), "p99_ms", rounded(figures.p99_ms, 0.001), "queue",
        (json_int_t)queue_depth(service->orders), "queue_max",
        (json_int_t)queue_capacity(service->orders), "batch_orders",
        rounded(figures.batch_orders, 0.1), "share", "redis", rounded(figures.redis_share, 0.001),
        "ledger", rounded(figures.ledger_share, 0.001), "connections", (json_int_t)open, "cpu",
        rounded((cpu_s - cpu_before_s) / figures.seconds, 0.001), "memory_bytes",
        (json_int_t)live->process.resident_bytes);
}

/* The daemon's object, without age_ms. */
static json_t *own_json(struct live *live, int64_t now_ns)
{
    struct service *service = live->base.service;
    int node = order_ids_node(&service->ids);
    const struct health *health = service->health;
    json_t *own = json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:[o, o]}", "name", live->name, "node",
                            node < 0 ? json_null() : json_integer(node), "address", live->address,
                            "version", SECKILL_VERSION, "started_at", live->started_at, "state",
                            state_word(service, now_ns), "servers",
                            server(health, HEALTH_REDIS, "redis", now_ns),
                            server(health, HEALTH_LEDGER, "ledger", now_ns));
    json_object_update_new(own, load(live, now_ns));
    return own;
}

/* ---- the page ---- */

/* A server that was not asked has no error: then shows the probe's word. */
static json_t *failure(const char *server, const char *error, enum health_state state)
{
    return json_pack("{s:s, s:o}", "server", server, "detail",
                     text_json(error[0] != '\0' ? error : health_word(state)));
}

static json_t *error_json(const struct live *live)
{
    const struct health *health = live->base.service->health;
    int64_t now_ns = clock_now_ns();
    if (!live->redis_answers)
        return failure("redis", redis_error(live->base.redis),
                       health_state(health, HEALTH_REDIS, now_ns));
    if (!live->ledger_answers)
        return failure("ledger", ledger_error(live->base.ledger),
                       health_state(health, HEALTH_LEDGER, now_ns));
    return json_null();
}

/* NULL, which leaves the member out: not known yet. */
static json_t *refunds_json(const struct live *live)
{
    if (!live->refunds_known)
        return NULL;
    return json_pack("{s:I, s:I}", "due", (json_int_t)live->refunds.count, "oldest_s",
                     (json_int_t)live->refunds.oldest_s);
}

static char *dump(const json_t *object)
{
    return memory_must(json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(10)));
}

static void publish(struct live *live, json_t *own, int64_t now_ms)
{
    char at[LEDGER_TIME_SIZE];
    json_t *daemons = json_array();
    ledger_time_format(clock_wall_ms(), at);
    json_object_set_new(own, "age_ms", json_integer(0));
    json_array_append(daemons, own);
    size_t more = live_group_list(live->group, daemons, clock_now_ns());
    json_t *all = json_pack("{s:s, s:s, s:o, s:I, s:o, s:o*}", "at", at, "daemon", live->name,
                            "daemons", daemons, "daemons_more", (json_int_t)more, "error",
                            error_json(live), "refunds", refunds_json(live));
    live_sales_add(live->sales, all, now_ms);
    live_events_add(live->events, all);
    char *text = dump(all);
    json_decref(all);
    struct prepared *page = prepared_new("application/json", "no-store", text, strlen(text));
    pthread_mutex_lock(&live->mutex);
    struct prepared *before = live->page;
    live->page = page;
    pthread_mutex_unlock(&live->mutex);
    prepared_release(&before);
}

/* ---- one turn ---- */

/* Keeps the start time first read: a change would look like a restart, and the clock behind it may
 * be set. */
static void look_at_process(struct live *live)
{
    struct process_stats stats;
    process_stats_read(&stats);
    if (live->process.start_s > 0)
        stats.start_s = live->process.start_s;
    pthread_mutex_lock(&live->mutex);
    live->process = stats;
    pthread_mutex_unlock(&live->mutex);
}

static bool is_up(enum health_state state)
{
    return state != HEALTH_DOWN && state != HEALTH_UNKNOWN;
}

/* Reports this daemon, and reads the others' reports. Daemons that share a Redis also share the
 * ledger, see order_patience_ns. */
static void turn_group(struct live *live, const json_t *own, int64_t now_ns)
{
    live->redis_answers = is_up(health_state(live->base.service->health, HEALTH_REDIS, now_ns));
    if (!live->redis_answers)
        return;
    char *text = dump(own);
    live->redis_answers = live_group_turn(live->group, live->base.redis, text, now_ns);
    admin_actions_flush(live->base.service->admin_actions, live->base.redis);
    atomic_store(&live->base.service->other_daemons, live_group_others(live->group));
    free(text);
}

static void turn_sales(struct live *live, int64_t now_ns, int64_t now_ms)
{
    const struct service *service = live->base.service;
    bool asked = atomic_load(&service->prepared) &&
                 is_up(health_state(service->health, HEALTH_LEDGER, now_ns));
    live->ledger_answers = asked && live_sales_read(live->sales, live->base.ledger, now_ms);
    live->redis_answers =
        live_sales_read_redis(live->sales, live->redis_answers ? live->base.redis : NULL);
}

/* Counts the refunds that are due, unless the ledger has just failed: a turn waits for one time
 * limit at most. Without an answer the last count stays. */
static void turn_refunds(struct live *live)
{
    struct ledger_refunds_due refunds;
    if (!live->ledger_answers || (live->refunds_known && live->turns % REFUNDS_TURNS != 0))
        return;
    live->ledger_answers = ledger_refunds_count(live->base.ledger, &refunds) == LEDGER_OK;
    if (!live->ledger_answers)
        return;
    pthread_mutex_lock(&live->mutex);
    live->refunds = refunds;
    live->refunds_known = true;
    pthread_mutex_unlock(&live->mutex);
}

static void turn_events(struct live *live)
{
    if (live->ledger_answers && live->base.service->config.events_retention_h > 0)
        live->ledger_answers = live_events_read(live->events, live->base.ledger);
}

/* Does not log failures: the probes of both servers do. */
static void turn(struct live *live)
{
    int64_t now_ns = clock_now_ns(), now_ms = synced_clock_ms(&live->base.service->clock);
    if (live->turns++ % PROCESS_TURNS == 0)
        look_at_process(live);
    json_t *own = own_json(live, now_ns);
    turn_group(live, own, now_ns);
    turn_sales(live, now_ns, now_ms);
    turn_refunds(live);
    turn_events(live);
    publish(live, own, now_ms);
    json_decref(own);
    progress_tell(&live->progress, live->base.service, live->sales, now_ns);
    faults_log_damage(live->base.ledger);
    fault_clear(redis_fault(live->base.redis));
    fault_clear(ledger_fault(live->base.ledger));
}

/* Waits until the daemon is ready: a page would raise alarms about servers not probed yet. */
static void wait_for_ready(struct live *live)
{
    int64_t until_ns = clock_now_ns() + BEGIN_MS_MAX * CLOCK_NS_PER_MS;
    while (!health_ready(live->base.service->health, clock_now_ns()) && clock_now_ns() < until_ns &&
           worker_sleep_ns(&live->base.thread, BEGIN_PAUSE_MS * CLOCK_NS_PER_MS))
        ;
}

static void run(void *context)
{
    struct live *live = context;
    wait_for_ready(live);
    int64_t due_ns = 0;
    do {
        due_ns = clock_now_ns() + LIVE_PAUSE_MS * CLOCK_NS_PER_MS;
        turn(live);
    } while (worker_sleep_ns(&live->base.thread, due_ns - clock_now_ns()));
    redis_set_timeout(live->base.redis, LEAVE_MS_MAX);
    if (is_up(health_state(live->base.service->health, HEALTH_REDIS, clock_now_ns()))) {
        admin_actions_flush(live->base.service->admin_actions, live->base.redis);
        live_group_leave(live->group, live->base.redis);
    }
}

/* ---- its last readings ---- */

struct prepared *live_page(struct live *live)
{
    pthread_mutex_lock(&live->mutex);
    struct prepared *page = live->page ? prepared_hold(live->page) : NULL;
    pthread_mutex_unlock(&live->mutex);
    return page;
}

void live_process(struct live *live, struct process_stats *stats_out)
{
    pthread_mutex_lock(&live->mutex);
    *stats_out = live->process;
    pthread_mutex_unlock(&live->mutex);
}

void live_figures(struct live *live, struct live_figures *figures_out)
{
    live_sales_figures(live->sales, figures_out);
}

bool live_refunds(struct live *live, struct ledger_refunds_due *refunds_out)
{
    pthread_mutex_lock(&live->mutex);
    bool known = live->refunds_known;
    *refunds_out = live->refunds;
    pthread_mutex_unlock(&live->mutex);
    return known;
}

void live_print_events(struct live *live, FILE *page)
{
    live_events_print(live->events, page);
}

/* ---- start and end ---- */

static void close_live(void *self)
{
    struct live *live = self;
    live_group_close(&live->group);
    live_sales_close(&live->sales);
    live_events_close(&live->events);
    prepared_release(&live->page);
    pthread_mutex_destroy(&live->mutex);
}

static const struct worker_kind live_kind = {
    .name = "live",
    .size = sizeof(struct live),
    .servers = WORKER_OF_REDIS | WORKER_OF_LEDGER,
    .redis_ms_max = REDIS_MS_MAX,
    .ledger_ms_max = LEDGER_MS_MAX,
    .run = run,
    .close = close_live,
};

bool live_start(struct service *service, const char *address)
{
    struct live *live = (struct live *)service_worker_open(&live_kind, service, 0);
    if (!live)
        return false;
    pthread_mutex_init(&live->mutex, NULL);
    make_name(live, address);
    live->group = live_group_open(live->name);
    live->events = live_events_open();
    live->sales = live_sales_open(strcmp(service->config.strategy, "database") != 0);
    admin_actions_name(service->admin_actions, live->name);
    ledger_time_format(clock_wall_ms(), live->started_at);
    live->cpu_s = process_stats_cpu_s();
    live->progress.told_ns = clock_now_ns();
    rates_begin(&live->rates, live->progress.told_ns);
    rates_begin(&live->progress.rates, live->progress.told_ns);
    look_at_process(live);
    service_worker_start(&live->base);
    service->live = live;
    return true;
}

void live_stop(struct live *live)
{
    service_worker_stop((struct service_worker *)live);
}

void live_join(struct live **live)
{
    struct service_worker *worker = (struct service_worker *)*live;
    *live = NULL;
    service_worker_join(&worker);
}
