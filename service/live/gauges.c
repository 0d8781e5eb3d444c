/* The gauges that are read when the page of metrics is made. */
#include "service/live/live.h"

#include <stdio.h>

#include "base/clock.h"
#include "service/metrics/metrics.h"
#include "service/workers/health.h"

/* ---- queues and connections ---- */

static const char *const call_words[CALL_KINDS] = {
    [CALL_LOOKUP] = "lookup",   [CALL_PAYMENT] = "payment", [CALL_CANCEL] = "cancel",
    [CALL_LIST] = "list",       [CALL_ADMIN] = "admin",     [CALL_SALE] = "sale",
    [CALL_LISTING] = "listing",
};

static void print_calls(struct metrics_text *text, const struct service *service)
{
    metrics_text_head(text, "seckill_call_queue_depth", "gauge",
                      "Calls that wait or are with their worker, by kind.");
    for (int kind = 0; kind < CALL_KINDS; kind++)
        metrics_text_add(text, "seckill_call_queue_depth{call=\"%s\"} %zu\n", call_words[kind],
                         queue_depth(service->calls[kind]));
    metrics_text_head(text, "seckill_call_queue_capacity", "gauge",
                      "Places in the queue of each kind of calls.");
    for (int kind = 0; kind < CALL_KINDS; kind++)
        metrics_text_add(text, "seckill_call_queue_capacity{call=\"%s\"} %zu\n", call_words[kind],
                         queue_capacity(service->calls[kind]));
}

static void print_connections(struct metrics_text *text, const struct service *service)
{
    const struct connection_use *public = &service->public_use, *admin = &service->admin_use;
    bool apart = atomic_load(&admin->max) > 0;
    if (atomic_load(&public->max) == 0) /* no listener is open yet */
        return;
    metrics_text_head(text, "seckill_connections", "gauge",
                      "Open connections, by listener: public, and admin with admin_listen.");
    metrics_text_add(text, "seckill_connections{listener=\"public\"} %u\n",
                     atomic_load(&public->open));
    if (apart)
        metrics_text_add(text, "seckill_connections{listener=\"admin\"} %u\n",
                         atomic_load(&admin->open));
    metrics_text_head(text, "seckill_connections_limit", "gauge",
                      "Connections that there may be now: fewer while descriptors are lacking.");
    metrics_text_add(text, "seckill_connections_limit{listener=\"public\"} %u\n",
                     atomic_load(&public->max));
    if (apart)
        metrics_text_add(text, "seckill_connections_limit{listener=\"admin\"} %u\n",
                         atomic_load(&admin->max));
}

/* ---- servers ---- */

static void print_state(struct metrics_text *text, const char *server, const char *place,
                        enum health_state state)
{
    for (int other = 0; other < HEALTH_STATE_COUNT; other++) {
        metrics_text_add(text, "seckill_server_state{server=\"%s\",address=", server);
        metrics_text_label(text, place);
        metrics_text_add(text, ",state=\"%s\"} %d\n", health_word((enum health_state)other),
                         state == (enum health_state)other);
    }
}

static void print_clock(struct metrics_text *text, const struct service *service)
{
    metrics_text_head(text, "seckill_ledger_clock_ahead_seconds", "gauge",
                      "The ledger's clock minus this daemon's.");
    if (synced_clock_known(&service->clock))
        metrics_text_add(text, "seckill_ledger_clock_ahead_seconds %.3f\n",
                         (double)(synced_clock_ms(&service->clock) - clock_wall_ms()) / 1000);
}

static void print_servers(struct metrics_text *text, const struct service *service, int64_t now_ns)
{
    const struct health *health = service->health;
    metrics_text_head(text, "seckill_server_state", "gauge",
                      "1 for the state that each server is in, 0 for all others.");
    print_state(text, "redis", health_redis_place(health), health_redis(health, now_ns));
    print_state(text, "ledger", health_ledger_place(health), health_ledger(health, now_ns));
}

/* ---- sales ---- */

/* A family with one value per sale; a sale without a value is left out. */
struct sale_family {
    const char *name, *help;
    bool (*value)(const struct ledger_sale *sale, int64_t now_ms, double *value_out);
};

static bool total_of(const struct ledger_sale *sale, int64_t now_ms, double *value_out)
{
    (void)now_ms;
    *value_out = sale->total;
    return true;
}

static bool sold_of(const struct ledger_sale *sale, int64_t now_ms, double *value_out)
{
    (void)now_ms;
    *value_out = sale->sold;
    return true;
}

static bool left_of(const struct ledger_sale *sale, int64_t now_ms, double *value_out)
{
    (void)now_ms;
    *value_out = sale->total - sale->sold;
    return true;
}

static bool paused_of(const struct ledger_sale *sale, int64_t now_ms, double *value_out)
{
    (void)now_ms;
    *value_out = sale->settings.paused;
    return true;
}

static bool open_of(const struct ledger_sale *sale, int64_t now_ms, double *value_out)
{
    *value_out = live_sale_open_at(sale, now_ms);
    return true;
}

static bool starts_of(const struct ledger_sale *sale, int64_t now_ms, double *value_out)
{
    (void)now_ms;
    *value_out = (double)sale->settings.starts_ms / 1000;
    return sale->settings.starts_ms > 0;
}

static bool ends_of(const struct ledger_sale *sale, int64_t now_ms, double *value_out)
{
    (void)now_ms;
    *value_out = (double)sale->settings.ends_ms / 1000;
    return sale->settings.ends_ms > 0;
}

static const struct sale_family sale_families[] = {
    {"seckill_sale_units", "Units of the sale's present round.", total_of},
    {"seckill_sale_sold_units", "Units in accepted orders of the present round.", sold_of},
    {"seckill_sale_left_units", "Units that can still be bought.", left_of},
    {"seckill_sale_paused", "1 while the sale is paused.", paused_of},
    {"seckill_sale_open", "1 between the sale's start and its end, paused or not.", open_of},
    {"seckill_sale_starts_timestamp_seconds", "When the sale starts, if it has a start.",
     starts_of},
    {"seckill_sale_ends_timestamp_seconds", "When the sale ends, if it has an end.", ends_of},
};

static void print_family(struct metrics_text *text, const struct sale_family *family,
                         const struct live_figures *figures, const struct service *service)
{
    metrics_text_head(text, family->name, "gauge", family->help);
    for (size_t i = 0; i < figures->shown; i++) {
        double value = 0;
        int64_t now_ms = synced_clock_ms(&service->clock);
        if (family->value(&figures->sales[i], now_ms, &value)) /* a sku needs no escapes */
            metrics_text_add(text, "%s{sku=\"%s\"} %.15g\n", family->name, figures->sales[i].sku,
                             value);
    }
}

static void print_sales(struct metrics_text *text, const struct service *service)
{
    struct live_figures figures;
    live_figures(service->live, &figures);
    metrics_text_head(text, "seckill_sales", "gauge", "Sales that are not retired.");
    metrics_text_add(text, "seckill_sales %zu\n", figures.known);
    metrics_text_head(text, "seckill_sales_not_shown", "gauge",
                      "Sales without series of their own, as there are too many.");
    metrics_text_add(text, "seckill_sales_not_shown %zu\n", figures.known - figures.shown);
    metrics_text_head(text, "seckill_sales_read_timestamp_seconds", "gauge",
                      "When the ledger was last asked for the figures of the sales.");
    metrics_text_add(text, "seckill_sales_read_timestamp_seconds %.3f\n",
                     (double)figures.read_ms / 1000);
    for (size_t i = 0; i < sizeof sale_families / sizeof sale_families[0]; i++)
        print_family(text, &sale_families[i], &figures, service);
}

/* ---- the process ---- */

static void print_one(struct metrics_text *text, const char *name, const char *type,
                      const char *help, double value)
{
    metrics_text_head(text, name, type, help);
    metrics_text_add(text, "%s %.15g\n", name, value);
}

/* Under the names that Prometheus' own libraries give them. */
static void print_process(struct metrics_text *text, struct live *live)
{
    struct process_stats stats;
    live_process(live, &stats);
    print_one(text, "process_cpu_seconds_total", "counter", "Processor time, user and system.",
              process_stats_cpu_s());
    print_one(text, "process_resident_memory_bytes", "gauge", "Memory that is in use.",
              (double)stats.resident_bytes);
    print_one(text, "process_virtual_memory_bytes", "gauge", "Address space.",
              (double)stats.virtual_bytes);
    print_one(text, "process_open_fds", "gauge", "Open descriptors.", (double)stats.files);
    print_one(text, "process_max_fds", "gauge", "Descriptors that may be open.",
              (double)stats.files_max);
    print_one(text, "process_threads", "gauge", "Threads.", (double)stats.threads);
    print_one(text, "process_start_time_seconds", "gauge", "When the process started.",
              stats.start_s);
    print_one(text, "seckill_time_seconds", "gauge", "The time by this daemon's clock.",
              (double)clock_wall_ms() / 1000);
}

static void print_build(struct metrics_text *text, const struct config *config)
{
    metrics_text_head(text, "seckill_build_info", "gauge",
                      "1; the labels say what runs and how it sells.");
    metrics_text_add(text, "seckill_build_info{version=\"" SECKILL_VERSION "\",strategy=");
    metrics_text_label(text, config->strategy);
    metrics_text_add(text, ",lock=");
    metrics_text_label(text, config->lock);
    metrics_text_add(text, "} 1\n");
}

/* ---- all of them ---- */

static void set_gauges(struct service *service, int64_t now_ns)
{
    const struct health *health = service->health;
    metrics_gauge_set(GAUGE_QUEUE_DEPTH, (int64_t)queue_depth(service->orders));
    metrics_gauge_set(GAUGE_QUEUE_CAPACITY, (int64_t)queue_capacity(service->orders));
    metrics_gauge_set(GAUGE_REDIS_UP, health_redis(health, now_ns) == HEALTH_OK);
    metrics_gauge_set(GAUGE_LEDGER_UP, health_ledger(health, now_ns) == HEALTH_OK);
    metrics_gauge_set(GAUGE_EXPIRY_ELECTED, atomic_load(&service->elected));
    metrics_gauge_set(GAUGE_READY, health_ready(health, now_ns) &&
                                       atomic_load(&service->phase) == SERVICE_SERVES);
}

size_t gauges_print(struct service *service, int64_t now_ns, char *buffer, size_t size)
{
    struct metrics_text text = {.buffer = buffer, .size = size, .length = 0};
    if (size > 0)
        buffer[0] = '\0';
    set_gauges(service, now_ns);
    print_build(&text, &service->config);
    print_calls(&text, service);
    print_connections(&text, service);
    print_servers(&text, service, now_ns);
    print_clock(&text, service);
    print_sales(&text, service);
    print_process(&text, service->live);
    return text.length;
}
