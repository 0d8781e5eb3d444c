/* /healthz, /readyz, /metrics and /openapi.json: for the operators of the service. */
#define _GNU_SOURCE /* asprintf */
#include "service/calls/ops.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openapi.h"
#include "service/metrics.h"

enum call_start call_ops_healthz(struct service *service, struct request *request,
                                 const struct call *call)
{
    (void)service;
    (void)call;
    answer_json(&request->answer, 200, json_pack("{s:s}", "status", "alive"));
    return START_ANSWERED;
}

/* What is known of Redis or the ledger while it is being asked. */
enum { PART_UNKNOWN, PART_OK, PART_DOWN };

/* As last seen by any call worker: while all of them wait for Redis or the ledger, no worker takes
 * the request, and its deadline answers from here. */
static _Atomic int redis_seen, ledger_seen;

static const char *part_name(int part)
{
    static const char *const names[] = {"unknown", "ok", "down"};
    return names[part];
}

static void answer_readyz(struct answer *answer, const char *status, int redis, int ledger)
{
    char *text = NULL;
    int length = asprintf(&text, "{\"status\":\"%s\",\"redis\":\"%s\",\"ledger\":\"%s\"}\n", status,
                          part_name(redis), part_name(ledger));
    if (length < 0)
        abort();
    bool ready = strcmp(status, "ready") == 0;
    answer_text(answer, ready ? 200 : 503, "application/json", text, (size_t)length);
    answer->retry_after_s = ready ? 0 : 1;
}

static void readyz(struct call_worker *worker, struct request *request)
{
    int redis = stock_ping_redis(worker->stock) ? PART_OK : PART_DOWN;
    atomic_store(&redis_seen, redis);
    atomic_store(&request->call.progress, redis); /* from here on the ledger is being asked */
    int ledger = stock_ping_ledger(worker->stock) ? PART_OK : PART_DOWN;
    atomic_store(&ledger_seen, ledger);
    /* While draining the service still answers, but a balancer is to send no new clients. */
    bool draining = atomic_load(&worker->service->draining);
    bool ready = redis == PART_OK && ledger == PART_OK && atomic_load(&worker->service->prepared);
    answer_readyz(&request->answer,
                  draining ? "draining"
                  : ready  ? "ready"
                           : "unavailable",
                  redis, ledger);
}

static void work_readyz(struct call_worker *worker, struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        readyz(worker, requests[i]);
}

/* Redis or the ledger did not answer by the deadline: the one that was being asked is down. */
static void expire_readyz(const struct request *request, struct answer *answer)
{
    if (atomic_load(&request->call.progress) != PART_UNKNOWN)
        atomic_store(&ledger_seen, PART_DOWN);
    answer_readyz(answer, "unavailable", atomic_load(&redis_seen), atomic_load(&ledger_seen));
}

enum call_start call_ops_readyz(struct service *service, struct request *request,
                                const struct call *call)
{
    (void)service;
    (void)call;
    request->call.expire = expire_readyz;
    return call_send(request, work_readyz, false);
}

enum call_start call_ops_metrics(struct service *service, struct request *request,
                                 const struct call *call)
{
    (void)call;
    char *text = malloc(METRICS_TEXT_MAX);
    if (!text)
        abort();
    /* A gauge is only read when the page is printed, so it is set here and not at every push. */
    metrics_gauge_set(GAUGE_QUEUE_DEPTH, (int64_t)queue_depth(service->orders));
    size_t length = metrics_print(text, METRICS_TEXT_MAX);
    answer_text(&request->answer, 200, METRICS_CONTENT_TYPE, text, length);
    return START_ANSWERED;
}

enum call_start call_ops_openapi(struct service *service, struct request *request,
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
