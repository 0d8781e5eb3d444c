/* /healthz, /readyz, /metrics and /openapi.json: for the operators of the service. */
#include "service/calls/ops.h"

#include <jansson.h>
#include <stdlib.h>
#include <pthread.h>
#include <string.h>

#include "openapi.h"
#include "service/http/prepared.h"
#include "service/metrics.h"
#include "service/workers/health.h"

enum call_start call_ops_healthz(struct service *service, struct request *request,
                                 const struct call *call)
{
    (void)service;
    (void)call;
    answer_json(&request->answer, 200, json_pack("{s:s}", "status", "alive"));
    return START_ANSWERED;
}

/* From memory: neither a queue nor a hanging server keeps the answer waiting. While draining the
 * service still answers, but a balancer is to send no new clients. */
enum call_start call_ops_readyz(struct service *service, struct request *request,
                                const struct call *call)
{
    enum health_state redis = health_redis(service->health, call->now_ns);
    enum health_state ledger = health_ledger(service->health, call->now_ns);
    bool draining = atomic_load(&service->phase) != SERVICE_SERVES;
    bool ready =
        !draining && redis == HEALTH_OK && ledger == HEALTH_OK && atomic_load(&service->prepared);
    answer_json(&request->answer, ready ? 200 : 503,
                json_pack("{s:s,s:s,s:s}", "status",
                          draining ? "draining"
                          : ready  ? "ready"
                                   : "unavailable",
                          "redis", health_word(redis), "ledger", health_word(ledger)));
    request->answer.retry_after_s = ready ? 0 : 1;
    return START_ANSWERED;
}

/* A gauge is only read when the page is printed, so it is set here and not at every change. */
static void set_gauges(struct service *service, int64_t now_ns)
{
    const struct health *health = service->health;
    metrics_gauge_set(GAUGE_QUEUE_DEPTH, (int64_t)queue_depth(service->orders));
    metrics_gauge_set(GAUGE_REDIS_UP, health_redis(health, now_ns) == HEALTH_OK);
    metrics_gauge_set(GAUGE_LEDGER_UP, health_ledger(health, now_ns) == HEALTH_OK);
}

enum call_start call_ops_metrics(struct service *service, struct request *request,
                                 const struct call *call)
{
    char *text = malloc(METRICS_TEXT_MAX);
    if (!text)
        abort();
    set_gauges(service, call->now_ns);
    size_t length = metrics_print(text, METRICS_TEXT_MAX);
    answer_text(&request->answer, 200, METRICS_CONTENT_TYPE, text, length);
    return START_ANSWERED;
}

/* The description is long, and nobody has shown a token: all requests share one answer, which lives
 * as long as the process. */
static struct prepared *openapi;
static pthread_once_t openapi_once = PTHREAD_ONCE_INIT;

static void prepare_openapi(void)
{
    char *text = strdup(openapi_json);
    if (!text)
        abort();
    openapi = prepared_new("application/json", "no-cache", text, sizeof openapi_json - 1);
}

enum call_start call_ops_openapi(struct service *service, struct request *request,
                                 const struct call *call)
{
    (void)service;
    (void)call;
    pthread_once(&openapi_once, prepare_openapi);
    answer_prepared(&request->answer, prepared_hold(openapi));
    return START_ANSWERED;
}
