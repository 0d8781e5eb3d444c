/* /healthz, /readyz, /metrics and /openapi.json: for those who operate the service. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "openapi.h"
#include "service/desk.h"
#include "service/handlers.h"
#include "service/metrics.h"

enum start_result handle_healthz(struct service *service, struct request *request,
                                 const struct call *call)
{
    (void)service;
    (void)call;
    desk_answer(request, 200, json_pack("{s:s}", "status", "alive"));
    return START_ANSWERED;
}

static void work_readyz(struct desk *desk, struct request *request)
{
    bool redis = false, ledger = false;
    stock_ping(desk->stock, &redis, &ledger);
    bool draining = atomic_load(&desk->service->draining);
    bool ready = redis && ledger && atomic_load(&desk->service->prepared) && !draining;
    desk_answer(request, ready ? 200 : 503,
                json_pack("{s:s, s:s, s:s}", "status",
                          ready      ? "ready"
                          : draining ? "draining"
                                     : "unavailable",
                          "redis", redis ? "ok" : "down", "ledger", ledger ? "ok" : "down"));
    if (!ready)
        request->answer.retry_after_s = 1;
}

enum start_result handle_readyz(struct service *service, struct request *request,
                                const struct call *call)
{
    (void)service;
    (void)call;
    request->work = work_readyz;
    return START_TO_DESK;
}

enum start_result handle_metrics(struct service *service, struct request *request,
                                 const struct call *call)
{
    (void)call;
    char *text = malloc(METRICS_TEXT_MAX);
    if (!text)
        abort();
    metrics_gauge_set(GAUGE_QUEUE_DEPTH, (int64_t)queue_depth(service->orders));
    size_t length = metrics_print(text, METRICS_TEXT_MAX);
    answer_text(&request->answer, 200, METRICS_CONTENT_TYPE, text, length);
    return START_ANSWERED;
}

enum start_result handle_openapi(struct service *service, struct request *request,
                                 const struct call *call)
{
    (void)service;
    (void)call;
    char *text = strdup(openapi_json);
    if (!text)
        abort();
    answer_text(&request->answer, 200, "application/json", text, sizeof openapi_json - 1);
    return START_ANSWERED;
}
