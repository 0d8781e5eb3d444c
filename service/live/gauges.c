/* The gauges that are read, all from memory, when the metrics page is made. */
#include "service/live/live.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "service/metrics/metrics.h"
#include "service/workers/health.h"

static void print_one(FILE *page, const char *name, const char *type, const char *help,
                      double value)
{
    metrics_print_head(page, name, type, help);
    fprintf(page, "%s %.15g\n", name, value);
}

static void print_gauge(FILE *page, const char *name, const char *help, double value)
{
    print_one(page, name, "gauge", help, value);
}

/* ---- queues and connections ---- */

static void print_calls(FILE *page, struct queue *const queues[CALL_KINDS], const char *name,
                        const char *help, size_t (*value)(const struct queue *queue))
{
    metrics_print_head(page, name, "gauge", help);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        fprintf(page, "%s{call=\"%s\"} %zu\n", name, call_kinds[kind].word, value(queues[kind]));
}

static void print_queues(FILE *page, const struct service *service)
{
    print_gauge(page, "seckill_queue_depth", "Orders in the queue or with an order worker.",
                (double)queue_depth(service->orders));
    print_gauge(page, "seckill_queue_capacity", "Places for orders in the queue.",
                (double)queue_capacity(service->orders));
    print_calls(page, service->calls, "seckill_call_queue_depth",
                "Calls that wait or are with their worker, by kind.", queue_depth);
    print_calls(page, service->calls, "seckill_call_queue_capacity",
                "Places in the queue of each kind of calls.", queue_capacity);
}

/* `apart`: admin calls have their own listener. */
static void print_listeners(FILE *page, const char *name, const char *help, unsigned public,
                            bool apart, unsigned admin)
{
    metrics_print_head(page, name, "gauge", help);
    fprintf(page, "%s{listener=\"public\"} %u\n", name, public);
    if (apart)
        fprintf(page, "%s{listener=\"admin\"} %u\n", name, admin);
}

static void print_connections(FILE *page, const struct service *service)
{
    const struct connection_use *public = &service->public_use, *admin = &service->admin_use;
    unsigned public_max = atomic_load(&public->max), admin_max = atomic_load(&admin->max);
    if (public_max == 0) /* no listener is open yet */
        return;
    print_listeners(page, "seckill_connections",
                    "Open connections, by listener: public, and admin with admin_listen.",
                    atomic_load(&public->open), admin_max > 0, atomic_load(&admin->open));
    print_listeners(page, "seckill_connections_limit",
                    "Connections that there may be now: fewer while descriptors are lacking.",
                    public_max, admin_max > 0, admin_max);
}

/* ---- servers ---- */

static void print_state(FILE *page, const char *server, const char *place, enum health_state state)
{
    for (int other = 0; other < HEALTH_STATE_COUNT; other++) {
        fprintf(page, "seckill_server_state{server=\"%s\",address=", server);
        metrics_print_label(page, place);
        fprintf(page, ",state=\"%s\"} %d\n", health_word((enum health_state)other),
                state == (enum health_state)other);
    }
}

static void print_servers(FILE *page, struct service *service, int64_t now_ns)
{
    const struct health *health = service->health;
    enum health_state redis = health_state(health, HEALTH_REDIS, now_ns),
                      ledger = health_state(health, HEALTH_LEDGER, now_ns);
    bool serves = atomic_load(&service->phase) == SERVICE_SERVES;
    print_gauge(page, "seckill_redis_up", "1 while Redis answers and takes writes.",
                redis == HEALTH_OK);
    print_gauge(page, "seckill_ledger_up", "1 while the ledger answers and takes writes.",
                ledger == HEALTH_OK);
    print_gauge(page, "seckill_ready", "1 while /readyz says ready.",
                serves && health_ready(health, now_ns));
    print_gauge(page, "seckill_expiry_elected", "1 while this daemon's expiry worker is elected.",
                atomic_load(&service->elected));
    if (service->config.events_retention_h > 0) {
        print_gauge(page, "seckill_publisher_elected", "1 while this daemon publishes the events.",
                    atomic_load(&service->publishes));
        print_gauge(page, "seckill_events_waiting_seconds",
                    "Age of the oldest event that was not published when this daemon last looked; "
                    "0 in daemons that do not publish.",
                    (double)atomic_load(&service->events_waiting_ms) / 1000);
    }
    metrics_print_head(page, "seckill_server_state", "gauge",
                       "1 for the state that each server is in, 0 for all others.");
    print_state(page, "redis", health_place(health, HEALTH_REDIS), redis);
    print_state(page, "ledger", health_place(health, HEALTH_LEDGER), ledger);
    print_gauge(page, "seckill_ledger_unanswered_write_seconds",
                "Age of the oldest write that the ledger has not answered in time; 0 without one.",
                (double)health_oldest_write_ms(health) / 1000);
    metrics_print_head(page, "seckill_ledger_clock_ahead_seconds", "gauge",
                       "The ledger's clock minus this daemon's.");
    if (synced_clock_known(&service->clock))
        fprintf(page, "seckill_ledger_clock_ahead_seconds %.3f\n",
                (double)(synced_clock_ms(&service->clock) - clock_wall_ms()) / 1000);
}

/* ---- sales ---- */

enum { UNITS, SOLD, LEFT, PAUSED, OPEN, STARTS, ENDS, SALE_FAMILIES };

static const struct {
    const char *name, *help;
} sale_families[SALE_FAMILIES] = {
    [UNITS] = {"seckill_sale_units", "Units of the sale's present round."},
    [SOLD] = {"seckill_sale_sold_units", "Units in accepted orders of the present round."},
    [LEFT] = {"seckill_sale_left_units", "Units that can still be bought."},
    [PAUSED] = {"seckill_sale_paused", "1 while the sale is paused."},
    [OPEN] = {"seckill_sale_open", "1 between the sale's start and its end, paused or not."},
    [STARTS] = {"seckill_sale_starts_timestamp_seconds",
                "When the sale starts, if it has a start."},
    [ENDS] = {"seckill_sale_ends_timestamp_seconds", "When the sale ends, if it has an end."},
};

/* NAN: the sale has no such value. */
static double value_of(const struct ledger_sale *sale, int64_t now_ms, int family)
{
    int64_t starts_ms = sale->settings.starts_ms, ends_ms = sale->settings.ends_ms;
    const double values[SALE_FAMILIES] = {
        [UNITS] = sale->total,
        [SOLD] = sale->sold,
        [LEFT] = sale->total - sale->sold,
        [PAUSED] = sale->settings.paused,
        [OPEN] = live_sale_open_at(sale, now_ms),
        [STARTS] = starts_ms > 0 ? (double)starts_ms / 1000 : NAN,
        [ENDS] = ends_ms > 0 ? (double)ends_ms / 1000 : NAN,
    };
    return values[family];
}

static void print_family(FILE *page, int family, const struct live_figures *figures, int64_t now_ms)
{
    const char *name = sale_families[family].name;
    metrics_print_head(page, name, "gauge", sale_families[family].help);
    for (size_t i = 0; i < figures->shown; i++) {
        double value = value_of(&figures->sales[i], now_ms, family);
        if (!isnan(value)) /* skus need no escapes */
            fprintf(page, "%s{sku=\"%s\"} %.15g\n", name, figures->sales[i].sku, value);
    }
}

static void print_sales(FILE *page, const struct service *service)
{
    struct live_figures figures;
    live_figures(service->live, &figures);
    print_gauge(page, "seckill_sales", "Sales that are not retired.", (double)figures.known);
    print_gauge(page, "seckill_sales_not_shown",
                "Sales without series of their own, as there are too many.",
                (double)(figures.known - figures.shown));
    print_gauge(page, "seckill_sales_read_timestamp_seconds",
                "When the ledger last gave the figures of the sales.",
                (double)figures.read_ms / 1000);
    int64_t now_ms = synced_clock_ms(&service->clock);
    for (int family = 0; family < SALE_FAMILIES; family++)
        print_family(page, family, &figures, now_ms);
}

/* ---- refunds ---- */

static void print_refunds(FILE *page, struct live *live)
{
    struct ledger_refunds_due refunds;
    static_assert(LEDGER_DUE_COUNT_MAX == 1000, "the help text says so");
    if (!live_refunds(live, &refunds))
        return;
    print_gauge(page, "seckill_refunds_due",
                "Payments that the shop is to pay back, counted up to 1,000.",
                (double)refunds.count);
    print_gauge(page, "seckill_refunds_due_oldest_seconds",
                "Seconds since the oldest of them was told; 0 without one.",
                (double)refunds.oldest_s);
}

/* ---- the process ---- */

/* Uses the names of Prometheus' own libraries. */
static void print_process(FILE *page, struct live *live)
{
    struct process_stats stats;
    live_process(live, &stats);
    print_one(page, "process_cpu_seconds_total", "counter", "Processor time, user and system.",
              process_stats_cpu_s());
    print_gauge(page, "process_resident_memory_bytes", "Memory that is in use.",
                (double)stats.resident_bytes);
    print_gauge(page, "process_virtual_memory_bytes", "Address space.",
                (double)stats.virtual_bytes);
    print_gauge(page, "process_open_fds", "Open descriptors.", (double)stats.files);
    print_gauge(page, "process_max_fds", "Descriptors that may be open.", (double)stats.files_max);
    print_gauge(page, "process_threads", "Threads.", (double)stats.threads);
    print_gauge(page, "process_start_time_seconds", "When the process started.", stats.start_s);
    print_gauge(page, "seckill_time_seconds", "The time by this daemon's clock.",
                (double)clock_wall_ms() / 1000);
}

static void print_build(FILE *page, const struct config *config)
{
    metrics_print_head(page, "seckill_build_info", "gauge",
                       "1; the labels say what runs and how it sells.");
    fputs("seckill_build_info{version=\"" SECKILL_VERSION "\",strategy=", page);
    metrics_print_label(page, config->strategy);
    fputs(",lock=", page);
    metrics_print_label(page, config->lock);
    fputs("} 1\n", page);
}

/* ---- all of them ---- */

void gauges_print(struct service *service, int64_t now_ns, FILE *page)
{
    print_build(page, &service->config);
    print_queues(page, service);
    print_connections(page, service);
    print_servers(page, service, now_ns);
    print_sales(page, service);
    print_refunds(page, service->live);
    live_print_events(service->live, page);
    print_process(page, service->live);
}
