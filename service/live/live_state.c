/* What this daemon says of itself, once a second. */
#include "service/live/live_state.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/metrics/process_stats.h"
#include "service/workers/health.h"
#include "service/workers/observer.h"
#include "sql/ledger/ledger.h"

static const double ns_per_ms = 1e6, ns_per_s = 1e9;

/* ---- texts of others ---- */

/* Where the text is no UTF-8, each byte in it that is no ASCII becomes a question mark. Any
 * thread. */
static void json_text_clean(char *text)
{
    json_t *string = json_string(text); /* NULL for a text that is no UTF-8 */
    for (char *at = text; !string && *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    json_decref(string);
}

json_t *json_text(const char *text)
{
    char *clean = strdup(text);
    if (!clean)
        abort();
    json_text_clean(clean);
    json_t *string = json_string(clean);
    if (!string)
        abort();
    free(clean);
    return string;
}

/* The host's name is cut, so that the rest tells daemons apart. */
static void make_name(struct live_state *state)
{
    char host[64] = "";
    const char *colon = strrchr(state->address, ':');
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "?");
    snprintf(state->name, sizeof state->name, "%s%.32s#%ld", host, colon ? colon : "",
             (long)getpid());
}

void live_state_begin(struct live_state *state, struct service *service, const char *address)
{
    *state = (struct live_state){.service = service, .started_ms = clock_wall_ms()};
    snprintf(state->address, sizeof state->address, "%s", address);
    make_name(state);
    json_text_clean(state->name);
    json_text_clean(state->address);
    state->at_ns = clock_now_ns();
    state->cpu_s = process_stats_cpu_s();
    rates_begin(&state->rates, state->at_ns);
}

/* Two or three digits after the point are enough for a person. */
static json_t *number(double value, double unit)
{
    return isnan(value) ? json_null() : json_real(round(value / unit) * unit);
}

static json_t *tenths(double value)
{
    return number(value, 0.1);
}

static json_t *thousandths(double value)
{
    return number(value, 0.001);
}

static const char *state_word(struct service *service, int64_t now_ns)
{
    if (atomic_load(&service->phase) != SERVICE_SERVES)
        return "draining";
    return health_ready(service->health, now_ns) ? "ready" : "not_ready";
}

static json_t *server(const char *kind, const char *place, enum health_state state, int64_t took_ns)
{
    return json_pack("{s:s, s:o, s:s, s:o}", "kind", kind, "name", json_text(place), "state",
                     health_word(state), "ms",
                     state == HEALTH_OK ? thousandths((double)took_ns / ns_per_ms) : json_null());
}

static json_t *servers(const struct service *service, int64_t now_ns)
{
    const struct health *health = service->health;
    json_t *redis = server("redis", health_redis_place(health), health_redis(health, now_ns),
                           health_redis_took_ns(health));
    json_t *ledger = server("ledger", health_ledger_place(health), health_ledger(health, now_ns),
                            health_ledger_took_ns(health));
    return json_pack("[o, o]", redis, ledger);
}

static json_t *per_s(const struct rates_figures *figures)
{
    static const char *const names[RATES_GROUPS] = {
        [RATES_ACCEPTED] = "accepted", [RATES_REPLAYED] = "replayed", [RATES_SOLD_OUT] = "sold_out",
        [RATES_REFUSED] = "refused",   [RATES_ERRORS] = "errors",
    };
    json_t *object = json_object();
    for (int group = 0; group < RATES_GROUPS; group++)
        json_object_set_new(object, names[group], tenths(figures->per_s[group]));
    return object;
}

/* The processor's time since the last call, as a part of one core. */
static double take_cpu(struct live_state *state, int64_t now_ns)
{
    double cpu_s = process_stats_cpu_s(), passed_s = (double)(now_ns - state->at_ns) / ns_per_s;
    double part = (cpu_s - state->cpu_s) / passed_s;
    state->cpu_s = cpu_s;
    state->at_ns = now_ns;
    return part;
}

static void add_load(struct live_state *state, json_t *object, int64_t now_ns)
{
    struct service *service = state->service;
    struct process_stats process;
    struct rates_figures figures;
    rates_take(&state->rates, now_ns, service->config.order_workers, &figures);
    observer_process(service->observer, &process);
    json_object_set_new(object, "per_s", per_s(&figures));
    json_object_set_new(object, "p50_ms", thousandths(figures.p50_ms));
    json_object_set_new(object, "p99_ms", thousandths(figures.p99_ms));
    json_object_set_new(object, "queue", json_integer((json_int_t)queue_depth(service->orders)));
    json_object_set_new(object, "queue_max",
                        json_integer((json_int_t)queue_capacity(service->orders)));
    json_object_set_new(object, "batch_orders", tenths(figures.batch_orders));
    json_object_set_new(object, "share",
                        json_pack("{s:o, s:o}", "redis", thousandths(figures.redis_share), "ledger",
                                  thousandths(figures.ledger_share)));
    json_object_set_new(object, "connections",
                        json_integer(atomic_load(&service->public_use.open) +
                                     atomic_load(&service->admin_use.open)));
    json_object_set_new(object, "cpu", thousandths(take_cpu(state, now_ns)));
    json_object_set_new(object, "memory_bytes", json_integer((json_int_t)process.resident_bytes));
}

json_t *live_state_take(struct live_state *state, int64_t now_ns)
{
    struct service *service = state->service;
    char started_at[LEDGER_TIME_SIZE];
    int node = order_ids_node(&service->ids);
    ledger_time_format(state->started_ms, started_at);
    json_t *object =
        json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:o}", "name", state->name, "node",
                  node < 0 ? json_null() : json_integer(node), "address", state->address, "version",
                  SECKILL_VERSION, "started_at", started_at, "state", state_word(service, now_ns),
                  "servers", servers(service, now_ns));
    add_load(state, object, now_ns);
    return object;
}
