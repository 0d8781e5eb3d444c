/* What calls have in common: reading their parts, and refusing them. */
#include "service/calls/call.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/identifier.h"

enum call_start call_refuse(struct request *request, const char *detail)
{
    answer_detail(&request->answer, PROBLEM_INVALID_REQUEST, detail);
    return START_ANSWERED;
}

const char *call_address(const struct request *request)
{
    return request->order.address[0] != '\0' ? request->order.address : "unix";
}

enum call_start call_send(struct request *request, call_work *work, bool changes)
{
    request->call.work = work;
    request->call.changes = changes;
    return START_TO_CALL_WORKER;
}

const char *call_read_key(const struct call *call, char *key_out)
{
    key_out[0] = '\0';
    if (!call->key || identifier_copy(call->key, strlen(call->key), key_out))
        return NULL;
    return "Idempotency-Key must be 1 to 64 characters out of A-Z a-z 0-9 . _ : -";
}

bool call_read_sku(struct request *request, const struct call *call)
{
    if (identifier_copy(call->tail, strlen(call->tail), request->call.sku))
        return true;
    answer_problem(&request->answer, PROBLEM_UNKNOWN_SKU);
    return false;
}

struct json_t *call_read_object(struct request *request, const struct call *call)
{
    json_error_t error;
    const char *detail = NULL;
    /* A member that comes twice means two things to two readers: refused. */
    json_t *object = json_loadb(call->body, call->body_length, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        detail = json_error_code(&error) == json_error_duplicate_key
                     ? "A field comes twice."
                     : "The body is not valid JSON.";
    else if (!json_is_object(object))
        detail = "The body must be a JSON object.";
    if (!detail)
        return object;
    call_refuse(request, detail);
    json_decref(object);
    return NULL;
}

void call_answer_no_order(const struct service *service, struct request *request)
{
    char detail[128];
    unsigned pod = order_id_pod(request->call.order_id);
    snprintf(detail, sizeof detail,
             "Pod %u, which was asked, has no such order; its id names pod %u.",
             service->config.pod, pod);
    answer_detail(&request->answer, PROBLEM_UNKNOWN_ORDER,
                  pod == service->config.pod ? NULL : detail);
}

int call_lock_wait_ms(const struct call_worker *worker, const struct request *request)
{
    enum { EXTRA_MS = 2000 }; /* to recover its segment, and for other calls that wait as well */
    const struct config *config = &worker->service->config;
    int64_t most_ms = (int64_t)config->lease_ms + EXTRA_MS;
    int64_t bound_ms = call_bound_ms(config, true) - (int64_t)config->deadline_ms / 4;
    int64_t passed_ms = (clock_now_ns() - request->arrived_ns) / CLOCK_NS_PER_MS;
    int64_t left_ms = (most_ms < bound_ms ? most_ms : bound_ms) - passed_ms;
    return left_ms > 0 ? (int)left_ms : 0;
}
