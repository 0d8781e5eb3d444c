/* /healthz, /servingz, /readyz, /metrics and the figures of the live page: for operators. */
#include "service/calls/calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "service/live/admin_actions.h"
#include "service/live/live.h"
#include "service/metrics/metrics.h"
#include "service/request/faults.h"
#include "service/request/prepared.h"
#include "service/workers/health.h"

enum call_start call_ops_healthz(struct request *request, const struct call *call)
{
    (void)call;
    answer_json(&request->answer, 200, json_pack("{s:s}", "status", "alive"));
    return START_ANSWERED;
}

static void answer_ready(struct request *request, bool ready, json_t *body)
{
    answer_json(&request->answer, ready ? 200 : 503, body);
    request->answer.retry_after_s = ready ? 0 : 1;
}

/* why_not_ready: when the ledger or Redis hangs, all daemons become unready at once. A balancer
 * that removed them all would refuse what they can still do: answer from memory, let orders wait
 * for their deadlines, and report what is down. */
enum call_start call_ops_servingz(struct request *request, const struct call *call)
{
    bool draining = atomic_load(&call->service->phase) != SERVICE_SERVES;
    bool serving = !draining && atomic_load(&call->service->prepared);
    const char *status = draining ? "draining" : serving ? "serving" : "starting";
    answer_ready(request, serving, json_pack("{s:s}", "status", status));
    return START_ANSWERED;
}

/* Answers from memory, so neither a queue nor a hanging server delays it. */
enum call_start call_ops_readyz(struct request *request, const struct call *call)
{
    enum health_state redis = health_state(call->service->health, HEALTH_REDIS, call->now_ns);
    enum health_state ledger = health_state(call->service->health, HEALTH_LEDGER, call->now_ns);
    bool draining = atomic_load(&call->service->phase) != SERVICE_SERVES;
    bool both = redis == HEALTH_OK && ledger == HEALTH_OK;
    bool prepared = atomic_load(&call->service->prepared);
    const char *status = draining    ? "draining"
                         : !both     ? "unavailable"
                         : !prepared ? "starting"
                                     : "ready";
    bool ready = !draining && both && prepared;
    json_t *body = json_pack("{s:s,s:s,s:s}", "status", status, "redis", health_word(redis),
                             "ledger", health_word(ledger));
    if (!health_news(call->service->health))
        json_object_set_new(body, "redis_news", json_false());
    if (!health_durable(call->service->health))
        json_object_set_new(body, "ledger_durable", json_false());
    answer_ready(request, ready, body);
    return START_ANSWERED;
}

/* why_shared: a page costs as much as several orders. In each PAGE_MS the first requests get pages
 * of their own, up to PAGES_BYTES_MAX together; further ones, a crowd, share the last page. */
enum { PAGE_MS = 100, PAGES_BYTES_MAX = 512 * 1024 };

static struct {
    pthread_mutex_t mutex;
    int64_t since_ns; /* when the present PAGE_MS began */
    size_t bytes;     /* of the pages made since then */
    struct prepared *last;
} metrics_page = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct prepared *make_metrics_page(struct service *service, int64_t now_ns)
{
    char *text = NULL;
    size_t length = 0;
    FILE *page = memory_must(open_memstream(&text, &length));
    gauges_print(service, now_ns, page);
    metrics_print(page);
    if (fclose(page) != 0)
        abort();
    return prepared_new(METRICS_CONTENT_TYPE, "no-store", text, length);
}

enum call_start call_ops_metrics(struct request *request, const struct call *call)
{
    struct prepared *page = NULL, *before = NULL;
    pthread_mutex_lock(&metrics_page.mutex);
    if (call->now_ns - metrics_page.since_ns >= PAGE_MS * CLOCK_NS_PER_MS) {
        metrics_page.since_ns = call->now_ns;
        metrics_page.bytes = 0;
    }
    if (metrics_page.last && metrics_page.bytes >= PAGES_BYTES_MAX)
        page = prepared_hold(metrics_page.last);
    pthread_mutex_unlock(&metrics_page.mutex);
    if (!page) {
        page = make_metrics_page(call->service, call->now_ns);
        pthread_mutex_lock(&metrics_page.mutex);
        before = metrics_page.last;
        metrics_page.last = prepared_hold(page);
        metrics_page.bytes += prepared_size(page);
        pthread_mutex_unlock(&metrics_page.mutex);
    }
    prepared_release(&before);
    answer_prepared(&request->answer, page);
    return START_ANSWERED;
}

enum call_start call_live_get(struct request *request, const struct call *call)
{
    struct prepared *text = live_page(call->service->live);
    if (text)
        answer_prepared(&request->answer, text);
    else
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE); /* no page exists yet */
    return START_ANSWERED;
}

static void list_actions(struct service_worker *worker, struct request *request)
{
    json_t *list = admin_actions_list(worker->service->admin_actions, stock_redis(worker->stock));
    if (list)
        answer_json(&request->answer, 200, json_pack("{s:o}", "actions", list));
    else
        answer_problem(&request->answer, faults_problem(worker->stock));
}

enum call_start call_live_actions(struct request *request, const struct call *call)
{
    (void)call;
    return call_send_one(request, list_actions, false);
}
