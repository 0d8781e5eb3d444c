/* The live thread: says once a second how this daemon is, to the group and to open dashboards.
 *
 * why_a_thread: neither orders nor HTTP threads wait for what a page shows, and any number of pages
 * costs what one does: they share a text.
 *
 * why_health_first: a server that hangs would hold each event back for a time limit. What is known
 * to be down is not asked until it is up again. */
#include "service/live/live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/worker.h"
#include "service/live/admin_actions.h"
#include "service/request/prepared.h"
#include "service/live/live_state.h"
#include "service/live/live_group.h"
#include "service/live/live_page.h"
#include "service/live/live_sales.h"
#include "service/workers/health.h"
#include "sql/ledger/ledger.h"

enum {
    REDIS_MS_MAX = 500,
    LEDGER_MS_MAX = 1000,
    LEAVE_MS_MAX = 200,  /* the end of the daemon does not wait longer for Redis */
    BEGIN_MS_MAX = 1000, /* the first turn does not wait longer for a daemon that begins */
    BEGIN_PAUSE_MS = 10,
};

struct live {
    struct worker thread;
    struct service *service;
    struct redis *redis;
    struct ledger *ledger;
    struct live_group *group;
    struct live_sales *sales;
    struct live_state state;
    bool redis_answers, ledger_answers; /* in the present turn */
};

/* ---- one text ---- */

/* A server that was not asked has no error of its own: then the probe's word tells. */
static json_t *failure(const char *server, const char *error, enum health_state state)
{
    return json_pack("{s:s, s:o}", "server", server, "detail",
                     json_text(error[0] != '\0' ? error : health_word(state)));
}

static json_t *error_json(const struct live *live)
{
    const struct health *health = live->service->health;
    int64_t now_ns = clock_now_ns();
    if (!live->redis_answers)
        return failure("redis", redis_error(live->redis), health_redis(health, now_ns));
    if (!live->ledger_answers)
        return failure("ledger", ledger_error(live->ledger), health_ledger(health, now_ns));
    return json_null();
}

static json_t *daemons_json(const struct live *live, json_t *own, int64_t now_ns, size_t *more_out)
{
    json_t *list = json_array();
    json_object_set_new(own, "age_ms", json_integer(0));
    json_array_append(list, own);
    *more_out = live_group_list(live->group, list, now_ns);
    return list;
}

static void publish(struct live *live, json_t *own)
{
    char at[LEDGER_TIME_SIZE];
    size_t more = 0;
    ledger_time_format(clock_wall_ms(), at);
    json_t *daemons = daemons_json(live, own, clock_now_ns(), &more);
    json_t *all = json_pack("{s:s, s:s, s:o, s:I}", "at", at, "daemon", live->state.name, "daemons",
                            daemons, "daemons_more", (json_int_t)more);
    live_sales_add(live->sales, all);
    json_object_set_new(all, "error", error_json(live));
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(10));
    json_decref(all);
    if (!text)
        abort();
    live_page_publish(live->service->live_page,
                      prepared_new("application/json", "no-store", text, strlen(text)));
}

/* ---- one turn ---- */

static bool is_up(enum health_state state)
{
    return state != HEALTH_DOWN && state != HEALTH_UNKNOWN;
}

/* Says how this daemon is, and reads what the others say. */
static void turn_group(struct live *live, const json_t *own, int64_t now_ns)
{
    live->redis_answers = is_up(health_redis(live->service->health, now_ns));
    char *text = json_dumps(own, JSON_COMPACT | JSON_REAL_PRECISION(10));
    if (!text)
        abort();
    if (live->redis_answers) {
        live->redis_answers = live_group_turn(live->group, live->redis, text, now_ns);
        admin_actions_flush(live->service->admin_actions, live->redis);
    }
    free(text);
}

static void turn_sales(struct live *live, int64_t now_ns)
{
    const struct service *service = live->service;
    bool redis = live->redis_answers;
    bool asked = atomic_load(&service->prepared) && is_up(health_ledger(service->health, now_ns));
    live_sales_turn(live->sales, asked ? live->ledger : NULL, redis ? live->redis : NULL, now_ns,
                    &live->ledger_answers, &redis);
    live->redis_answers = live->redis_answers && redis;
}

/* The daemons that share a Redis share the ledger, too: see order_patience_ns. */
static void note_daemons(struct live *live)
{
    atomic_store(&live->service->other_daemons, (unsigned)live_group_others(live->group));
}

/* Failures are no news for the log: the probes of both servers have told of them. */
static void turn(struct live *live)
{
    int64_t now_ns = clock_now_ns();
    json_t *own = live_state_take(&live->state, now_ns);
    turn_group(live, own, now_ns);
    turn_sales(live, now_ns);
    publish(live, own);
    note_daemons(live);
    json_decref(own);
    fault_clear(redis_fault(live->redis));
    fault_clear(ledger_fault(live->ledger));
}

/* Waits until the daemon is ready: a page would raise alarms about servers that nobody has asked
 * yet. */
static void wait_for_ready(struct live *live)
{
    int64_t until_ns = clock_now_ns() + BEGIN_MS_MAX * CLOCK_NS_PER_MS;
    while (!health_ready(live->service->health, clock_now_ns()) && clock_now_ns() < until_ns &&
           worker_sleep_ns(&live->thread, BEGIN_PAUSE_MS * CLOCK_NS_PER_MS))
        ;
}

static void run(void *context)
{
    struct live *live = context;
    prctl(PR_SET_NAME, "live");
    wait_for_ready(live);
    int64_t due_ns = 0;
    do {
        due_ns = clock_now_ns() + LIVE_PAUSE_MS * CLOCK_NS_PER_MS;
        turn(live);
    } while (worker_sleep_ns(&live->thread, due_ns - clock_now_ns()));
    redis_set_timeout(live->redis, LEAVE_MS_MAX);
    if (is_up(health_redis(live->service->health, clock_now_ns()))) {
        admin_actions_flush(live->service->admin_actions, live->redis);
        live_group_leave(live->group, live->redis);
    }
}

/* ---- start and end ---- */

static int bounded(unsigned timeout_ms, int max_ms)
{
    return timeout_ms < (unsigned)max_ms ? (int)timeout_ms : max_ms;
}

static bool open_connections(struct live *live, char *error_out, size_t error_size)
{
    const struct config *config = &live->service->config;
    live->redis = redis_open(config->redis_url, bounded(config->redis_timeout_ms, REDIS_MS_MAX),
                             error_out, error_size);
    if (live->redis)
        live->ledger =
            ledger_open(config->mysql_url, bounded(config->mysql_timeout_ms, LEDGER_MS_MAX),
                        error_out, error_size);
    return live->ledger;
}

struct live *live_start(struct service *service, const char *address, char *error_out,
                        size_t error_size)
{
    struct live *live = calloc(1, sizeof *live);
    if (!live)
        abort();
    live->service = service;
    if (!open_connections(live, error_out, error_size)) {
        live_join(&live);
        return NULL;
    }
    live_state_begin(&live->state, service, address);
    admin_actions_name(service->admin_actions, live->state.name);
    live->group = live_group_open(live->state.name);
    live->sales = live_sales_open(service);
    if (!worker_start(&live->thread, run, live))
        abort();
    return live;
}

void live_stop(struct live *live)
{
    if (live)
        worker_stop(&live->thread);
}

void live_join(struct live **live_pointer)
{
    struct live *live = *live_pointer;
    *live_pointer = NULL;
    if (!live)
        return;
    worker_join(&live->thread);
    live_group_close(&live->group);
    live_sales_close(&live->sales);
    if (live->redis)
        redis_close(&live->redis);
    if (live->ledger)
        ledger_close(&live->ledger);
    free(live);
}
