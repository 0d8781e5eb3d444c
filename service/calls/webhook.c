/* The operator's calls on webhooks: /admin/webhooks. */
#include "service/calls/calls.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "service/events/webhook_http.h"
#include "service/log/log.h"
#include "service/request/faults.h"
#include "sql/events/webhooks.h"

#define NAME_FORM "The name in the path must be 1 to 64 characters out of A-Z a-z 0-9 . _ : -"

/* ---- answers ---- */

/* Returns NULL, which json_pack leaves out, for 0. */
static json_t *time_json(int64_t ms)
{
    char text[LEDGER_TIME_SIZE];
    if (ms == 0)
        return NULL;
    ledger_time_format(ms, text);
    return json_string(text);
}

static json_t *types_json(const struct webhook_settings *settings)
{
    json_t *list = json_array();
    for (int i = 0; i < LEDGER_EVENT_TYPES; i++)
        if (settings->types & UINT32_C(1) << i)
            json_array_append_new(list, json_string(ledger_event_name((enum ledger_event_type)i)));
    return list;
}

static json_t *skus_json(const struct webhook_settings *settings)
{
    json_t *list = json_array();
    for (size_t i = 0; i < settings->sku_count; i++)
        json_array_append_new(list, json_string(settings->skus[i]));
    return list;
}

static const char *const content_types[] = {"application/json", "application/cloudevents+json"};

/* The names alone: the values are secrets. */
static json_t *headers_json(const struct webhook_settings *settings)
{
    json_t *list = json_array();
    for (const char *at = settings->headers; *at; at += strcspn(at, "\n"), at += *at == '\n')
        json_array_append_new(list, json_stringn(at, strcspn(at, ":")));
    return list;
}

/* A webhook without its secrets. */
static json_t *webhook_json(const struct ledger_webhook *webhook,
                            const struct ledger_event_bounds *bounds)
{
    const struct webhook_settings *settings = &webhook->settings;
    const struct webhook_progress *progress = &webhook->progress;
    char position[24];
    snprintf(position, sizeof position, "%llu", (unsigned long long)progress->position);
    json_t *object = json_pack(
        "{s:s, s:s, s:o, s:o, s:s, s:o, s:s, s:s, s:I, s:I, s:i, s:i}", "name", webhook->name,
        "url", settings->url, "types", types_json(settings), "skus", skus_json(settings),
        "content_type", content_types[settings->cloudevents], "header_names",
        headers_json(settings), "state", webhook_state_names[webhook->state], "position", position,
        "lag", (json_int_t)webhook_lag(webhook, bounds), "delivered",
        (json_int_t)progress->delivered, "failures", (int)progress->failures, "undelivered",
        (int)webhook->undelivered);
#define ADD(name, ...) json_object_set_new(object, #name, json_integer(settings->name));
    WEBHOOK_NUMBERS(ADD)
#undef ADD
    bool failed = webhook->reason != WEBHOOK_REASON_NONE, tried = progress->last_ms != 0;
    bool waits = progress->next_try_ms > bounds->now_ms;
    json_object_update_new(
        object,
        json_pack("{s:s*, s:o*, s:s*, s:o*, s:o*, s:o*, s:o*, s:s*, s:o*}", "reason",
                  failed ? webhook_reason_names[webhook->reason] : NULL, "last_status",
                  tried ? json_integer(progress->last_status) : NULL, "last_answer",
                  tried ? progress->last_answer : NULL, "last_at", time_json(progress->last_ms),
                  "failing_since", time_json(progress->failing_since_ms), "retrying_since",
                  time_json(webhook->retrying_since_ms), "next_try_at",
                  time_json(waits ? progress->next_try_ms : 0), "waits_for",
                  waits ? webhook_wait_names[progress->wait] : NULL, "created_at",
                  time_json(webhook->created_ms)));
    return object;
}

/* Answers what came of a call, unless it is LEDGER_OK. */
static void answer_fault(const struct service_worker *worker, struct request *request,
                         enum ledger_result result)
{
    answer_problem(&request->answer, result == LEDGER_NO        ? PROBLEM_UNKNOWN_WEBHOOK
                                     : result == LEDGER_LIMIT   ? PROBLEM_WEBHOOKS_FULL
                                     : result == LEDGER_UNKNOWN ? PROBLEM_OUTCOME_UNKNOWN
                                                                : faults_problem(worker->stock));
}

/* Reads the webhook of the call. NULL: the call is answered. */
static json_t *look(const struct service_worker *worker, struct request *request)
{
    struct ledger *ledger = stock_ledger(worker->stock);
    struct ledger_webhook webhook;
    struct ledger_event_bounds bounds;
    json_t *object = NULL;
    enum ledger_result result = ledger_webhook_find(ledger, request->call.sku, &webhook);
    if (result == LEDGER_OK)
        result = ledger_events_bounds(ledger, &bounds);
    if (result == LEDGER_OK)
        object = webhook_json(&webhook, &bounds);
    else
        answer_fault(worker, request, result);
    explicit_bzero(&webhook, sizeof webhook);
    return object;
}

/* Answers a change with the webhook as it is now. `secret`: shown this once, or NULL. */
static void answer_change(const struct service_worker *worker, struct request *request,
                          enum ledger_result result, unsigned status, const char *secret)
{
    json_t *object = NULL;
    if (result != LEDGER_OK)
        answer_fault(worker, request, result);
    else
        object = look(worker, request);
    if (object && secret)
        json_object_set_new(object, "secret", json_sprintf("whsec_%s", secret));
    if (object)
        answer_json(&request->answer, status, object);
}

static void end_action(const struct service_worker *worker, struct request *request,
                       const char *action)
{
    call_end_action(request->answer.status < 300 ? LOG_INFO : LOG_WARN, "webhook_changed",
                    worker->service, request, "", "webhook=%s action=%s status=%u",
                    request->call.sku, action, request->answer.status);
}

/* ---- parts of a call ---- */

/* Reads the name from the path, which call.sku holds, and refuses every call while events are off.
 */
static bool read_name(struct request *request, const struct call *call)
{
    request->call.sku[0] = '\0';
    if (!call_events_on(request, call))
        return false;
    if (identifier_copy(call->tail, strcspn(call->tail, "/"), request->call.sku))
        return true;
    call_refuse(request, NAME_FORM);
    return false;
}

static enum call_start hand_on(struct request *request, const struct call *call,
                               call_work_one *work, bool changes)
{
    return read_name(request, call) ? call_send_one(request, work, changes) : START_ANSWERED;
}

/* ---- looks ---- */

static void list(struct service_worker *worker, struct request *request)
{
    struct ledger *ledger = stock_ledger(worker->stock);
    struct ledger_webhook *webhooks = memory_must(calloc(WEBHOOKS_MAX, sizeof *webhooks));
    struct ledger_event_bounds bounds;
    size_t count = 0;
    if (ledger_webhooks_list(ledger, webhooks, &count) == LEDGER_OK &&
        ledger_events_bounds(ledger, &bounds) == LEDGER_OK) {
        json_t *array = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(array, webhook_json(&webhooks[i], &bounds));
        answer_json(&request->answer, 200, json_pack("{s:o}", "webhooks", array));
    } else {
        answer_fault(worker, request, LEDGER_FAILED);
    }
    explicit_bzero(webhooks, WEBHOOKS_MAX * sizeof *webhooks);
    free(webhooks);
}

enum call_start call_webhook_list(struct request *request, const struct call *call)
{
    return call_events_on(request, call) ? call_send_one(request, list, false) : START_ANSWERED;
}

static void get(struct service_worker *worker, struct request *request)
{
    answer_change(worker, request, LEDGER_OK, 200, NULL);
}

enum call_start call_webhook_get(struct request *request, const struct call *call)
{
    return hand_on(request, call, get, false);
}

/* ---- settings ---- */

static void put(struct service_worker *worker, struct request *request)
{
    char secret[WEBHOOK_SECRET_SIZE];
    bool created = false;
    webhook_secret_make(secret);
    enum ledger_result result =
        ledger_webhook_put(stock_ledger(worker->stock), request->call.sku, request->call.webhook,
                           secret, request->call.rotate, &created);
    answer_change(worker, request, result, created ? 201 : 200,
                  created || request->call.rotate ? secret : NULL);
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(request->call.webhook, sizeof *request->call.webhook);
    end_action(worker, request, "set");
}

static bool copy_url(const char *text, size_t length, char *url_out)
{
    if (length >= WEBHOOK_URL_SIZE || strlen(text) != length)
        return false;
    memcpy(url_out, text, length + 1);
    return true;
}

/* Reads a list of texts by `take`, at most WEBHOOK_SKUS_MAX; an absent one is empty. */
static bool read_list(const json_t *list, struct webhook_settings *settings,
                      bool (*take)(struct webhook_settings *settings, const json_t *text))
{
    size_t i;
    const json_t *text;
    if (list && (!json_is_array(list) || json_array_size(list) > WEBHOOK_SKUS_MAX))
        return false;
    json_array_foreach(list, i,
                       text) if (!json_is_string(text) || !take(settings, text)) return false;
    return true;
}

static bool take_type(struct webhook_settings *settings, const json_t *text)
{
    enum ledger_event_type type = ledger_event_type_of(json_string_value(text));
    if (type == LEDGER_EVENT_TYPES)
        return false;
    settings->types |= UINT32_C(1) << type;
    return true;
}

static bool take_sku(struct webhook_settings *settings, const json_t *text)
{
    return identifier_copy(json_string_value(text), json_string_length(text),
                           settings->skus[settings->sku_count++]);
}

struct body {
    struct webhook_settings settings;
    bool rotate;
};

static const char *read_headers(const json_t *headers, struct webhook_settings *settings)
{
    const char *name, *fault = NULL;
    json_t *value;
    settings->headers_stay = !headers;
    if (headers && !json_is_object(headers))
        return "headers must be an object of at most 8 texts, of 2048 bytes together.";
    json_object_foreach((json_t *)headers, name, value) if (!fault)
    {
        const char *text = json_is_string(value) ? json_string_value(value) : "";
        bool whole = strlen(text) == json_string_length(value);
        fault = webhook_header_add(settings->headers, name, whole ? text : "");
    }
    return fault;
}

/* Returns NULL, or the fault. */
static const char *read_settings(const json_t *object, struct body *body)
{
#define FIELD(name, least, most, usual)                                                            \
    {#name,                                                                                        \
     FIELD_NUMBER,                                                                                 \
     offsetof(struct body, settings.name),                                                         \
     #name " must be a whole number from " #least " to " #most ".",                                \
     .min = least,                                                                                 \
     .max = most},
    static const struct call_field fields[FIELDS_MAX] = {
        {"url", FIELD_TEXT, offsetof(struct body, settings.url),
         "url must be a string of at most 512 characters.", .must = true, .copy = copy_url},
        {"rotate_secret", FIELD_SWITCH, offsetof(struct body, rotate),
         .detail = "rotate_secret must be true or false."},
        {"content_type", FIELD_WORD, offsetof(struct body, settings.cloudevents),
         "content_type must be application/json or application/cloudevents+json.",
         .words = {"application/json", "application/cloudevents+json"}},
        WEBHOOK_NUMBERS(FIELD)};
#undef FIELD
    unsigned found = 0;
    const json_t *types = json_object_get(object, "types"), *skus = json_object_get(object, "skus");
    const json_t *headers = json_object_get(object, "headers");
    const char *fault = call_read_fields(object, fields, body, &found);
    size_t known =
        (size_t)__builtin_popcount(found) + (types != NULL) + (skus != NULL) + (headers != NULL);
    if (!fault)
        fault = read_headers(headers, &body->settings);
    if (fault)
        return fault;
    if (!read_list(types, &body->settings, take_type))
        return "types must be an array of at most 32 names of events.";
    if (!read_list(skus, &body->settings, take_sku))
        return "skus must be an array of at most 32 skus, each " SKU_FORM;
    return json_object_size(object) > known ? "There is a field other than url, types, skus, "
                                              "content_type, headers, batch, concurrency, "
                                              "timeout_s, retry_max_s, give_up_s and rotate_secret."
                                            : NULL;
}

static const char *read_put(const struct call *call, struct body *body)
{
    struct webhook_client client;
    const char *fault = NULL;
    json_t *object = call_parse_object(call->body, call->body_length,
                                       "The number of a field is out of range.", &fault);
    if (object)
        fault = read_settings(object, body);
    json_decref(object);
    webhook_client_init(&client, &call->service->config);
    return fault ? fault : webhook_url_fault(&client.own, body->settings.url);
}

enum call_start call_webhook_put(struct request *request, const struct call *call)
{
#define USUAL(name, min, max, usual) .name = usual,
    struct body body = {.settings = {WEBHOOK_NUMBERS(USUAL).types = 0}};
#undef USUAL
    if (!read_name(request, call))
        return START_ANSWERED;
    const char *fault = read_put(call, &body);
    if (fault)
        return call_refuse(request, fault);
    request->call.webhook = memory_must(malloc(sizeof *request->call.webhook));
    *request->call.webhook = body.settings;
    explicit_bzero(&body.settings.headers, sizeof body.settings.headers);
    request->call.rotate = body.rotate;
    return call_send_one(request, put, true);
}

/* ---- changes of state ---- */

static void remove_webhook(struct service_worker *worker, struct request *request)
{
    json_t *object = look(worker, request);
    if (!object)
        return;
    enum ledger_result result =
        ledger_webhook_delete(stock_ledger(worker->stock), request->call.sku);
    if (result == LEDGER_OK)
        answer_json(&request->answer, 200, json_incref(object));
    else
        answer_fault(worker, request, result);
    json_decref(object);
    end_action(worker, request, "delete");
}

enum call_start call_webhook_delete(struct request *request, const struct call *call)
{
    return hand_on(request, call, remove_webhook, true);
}

static void pause_webhook(struct service_worker *worker, struct request *request)
{
    answer_change(worker, request,
                  ledger_webhook_pause(stock_ledger(worker->stock), request->call.sku), 200, NULL);
    end_action(worker, request, "pause");
}

enum call_start call_webhook_pause(struct request *request, const struct call *call)
{
    return hand_on(request, call, pause_webhook, true);
}

static void resume(struct service_worker *worker, struct request *request)
{
    answer_change(worker, request,
                  ledger_webhook_resume(stock_ledger(worker->stock), request->call.sku), 200, NULL);
    end_action(worker, request, "resume");
}

enum call_start call_webhook_resume(struct request *request, const struct call *call)
{
    return hand_on(request, call, resume, true);
}

/* ---- replay ---- */

static void replay(struct service_worker *worker, struct request *request)
{
    struct ledger_event_bounds bounds;
    enum ledger_result result = ledger_webhook_replay(
        stock_ledger(worker->stock), request->call.sku, request->call.position, &bounds);
    if (result == LEDGER_LATE && request->call.position < bounds.oldest)
        answer_members(&request->answer, PROBLEM_CURSOR_EXPIRED, NULL, ",\"oldest\":\"%llu\"",
                       (unsigned long long)bounds.oldest - 1);
    else if (result == LEDGER_LATE)
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST,
                      "after is behind the end of the feed.");
    else
        answer_change(worker, request, result, 200, NULL);
    end_action(worker, request, "replay");
}

/* Reads the position of an event, and returns that of the next. */
static bool copy_cursor(const char *text, size_t length, char *position_out)
{
    uint64_t *position = (void *)position_out;
    bool valid = call_read_number(text, length, UINT64_MAX, position);
    *position += 1;
    return valid;
}

enum call_start call_webhook_replay(struct request *request, const struct call *call)
{
    static const struct call_body body = {
        .fields = {{"after", FIELD_TEXT, offsetof(struct request_call, position),
                    "after must be the id of an event, or 0 for all.", .must = true,
                    .copy = copy_cursor}},
        .other = "There is a field other than after.",
    };
    return read_name(request, call) && call_read_body(request, call, &body, &request->call)
               ? call_send_one(request, replay, true)
               : START_ANSWERED;
}

/* ---- requests that were given up ---- */

static void add_aside(const struct webhook_aside *aside, void *list)
{
    json_array_append_new(
        list, json_pack("{s:s, s:i, s:s, s:o*, s:o*, s:o*}", "id", aside->id, "events",
                        (int)aside->events, "last_answer", aside->answer, "failing_since",
                        time_json(aside->failing_since_ms), "given_up_at",
                        time_json(aside->given_up_ms), "body", json_loads(aside->body, 0, NULL)));
}

static void list_undelivered(struct service_worker *worker, struct request *request)
{
    enum { SHOWN_MAX = 4096 }; /* bytes of a body */
    json_t *object = look(worker, request), *list = json_array();
    if (object && ledger_webhook_asides(stock_ledger(worker->stock), request->call.sku, true,
                                        SHOWN_MAX, add_aside, list) != LEDGER_OK)
        answer_fault(worker, request, LEDGER_FAILED);
    else if (object)
        answer_json(&request->answer, 200, json_pack("{s:O}", "undelivered", list));
    json_decref(list);
    json_decref(object);
}

enum call_start call_webhook_undelivered(struct request *request, const struct call *call)
{
    return hand_on(request, call, list_undelivered, false);
}

static void resend(struct service_worker *worker, struct request *request)
{
    enum ledger_result result = ledger_webhook_resend(
        stock_ledger(worker->stock), request->call.sku, request->call.key, request->call.discard);
    if (result == LEDGER_LIMIT)
        answer_problem(&request->answer, PROBLEM_OVERLOADED);
    else
        answer_change(worker, request, result == LEDGER_NO ? LEDGER_OK : result, 200, NULL);
    if (result == LEDGER_NO && request->answer.status == 200)
        answer_problem(&request->answer, PROBLEM_UNKNOWN_UNDELIVERED);
    end_action(worker, request,
               request->call.discard ? "discard_undelivered" : "replay_undelivered");
}

static enum call_start hand_on_id(struct request *request, const struct call *call, bool discard)
{
    static const struct call_body body = {
        .fields = {{"id", FIELD_TEXT, offsetof(struct request_call, key),
                    "id must be the id of an undelivered request.", .must = true,
                    .copy = identifier_copy}},
        .other = "There is a field other than id.",
    };
    request->call.discard = discard;
    return read_name(request, call) && call_read_body(request, call, &body, &request->call)
               ? call_send_one(request, resend, true)
               : START_ANSWERED;
}

enum call_start call_webhook_resend(struct request *request, const struct call *call)
{
    return hand_on_id(request, call, false);
}

enum call_start call_webhook_discard(struct request *request, const struct call *call)
{
    return hand_on_id(request, call, true);
}

/* ---- test ---- */

enum { TEST_MS_MAX = 3000, TEST_SPARE_MS = 300 };

/* The time for the receiver's answer, so that ours comes before the end of the call. 0: other tests
 * have taken more than half of it. */
static long test_ms(const struct service_worker *worker, const struct request *request)
{
    int64_t passed_ms = (clock_now_ns() - request->arrived_ns) / CLOCK_NS_PER_MS;
    int64_t all_ms = call_bound_ms(&worker->service->config, true) - TEST_SPARE_MS;
    int64_t left_ms = all_ms - passed_ms, own_ms = all_ms < TEST_MS_MAX ? all_ms : TEST_MS_MAX;
    return left_ms >= own_ms ? own_ms : left_ms >= own_ms / 2 && left_ms > 0 ? left_ms : 0;
}

static json_t *try_once(struct service_worker *worker, const struct ledger_webhook *webhook,
                        long timeout_ms)
{
    static const char *const words[] = {
        [WEBHOOK_OUTCOME_OK] = "ok",           [WEBHOOK_OUTCOME_FAILED] = "failed",
        [WEBHOOK_OUTCOME_TIMEOUT] = "timeout", [WEBHOOK_OUTCOME_REFUSED] = "refused",
        [WEBHOOK_OUTCOME_DISABLED] = "failed",
    };
    const struct config *config = &worker->service->config;
    bool batch = webhook->settings.batch > 1;
    struct webhook_client client;
    char text[WEBHOOK_HEAD_MAX + ANSWER_INLINE_MAX], id[WEBHOOK_ID_SIZE], time[LEDGER_TIME_SIZE];
    struct webhook_call try = {
        .client = &client,
        .webhook = webhook,
        .id = id,
        .body = text + WEBHOOK_HEAD_MAX,
        .now_ms = synced_clock_ms(&worker->service->clock),
        .timeout_ms = timeout_ms,
    };
    webhook_client_init(&client, config);
    ledger_time_format(try.now_ms, time);
    snprintf(id, sizeof id, "test_%u_%lld", config->pod, (long long)try.now_ms);
    try.length =
        (size_t)snprintf(try.body, ANSWER_INLINE_MAX,
                         "%s{\"specversion\":\"1.0\",\"id\":\"%s\",\"source\":\"/seckill/%u\","
                         "\"type\":\"webhook.test\",\"time\":\"%s\",\"data\":{}}%s",
                         batch ? "[" : "", id, config->pod, time, batch ? "]" : "");
    int64_t start_ns = clock_now_ns();
    webhook_call_begin(&try);
    enum webhook_outcome outcome = webhook_call_end(&try, curl_easy_perform(try.easy));
    int64_t ms = (clock_now_ns() - start_ns) / CLOCK_NS_PER_MS;
    return json_pack("{s:s, s:i, s:I, s:s}", "result", words[outcome], "status", (int)try.status,
                     "latency_ms", (json_int_t)ms, "answer", try.answer);
}

static void test(struct service_worker *worker, struct request *request)
{
    struct ledger_webhook webhook;
    enum ledger_result result =
        ledger_webhook_find(stock_ledger(worker->stock), request->call.sku, &webhook);
    long timeout_ms = test_ms(worker, request);
    if (result == LEDGER_OK && timeout_ms > 0)
        answer_json(&request->answer, 200, try_once(worker, &webhook, timeout_ms));
    else if (result == LEDGER_OK)
        answer_problem(&request->answer, PROBLEM_OVERLOADED);
    else
        answer_fault(worker, request, result);
    explicit_bzero(&webhook, sizeof webhook);
    end_action(worker, request, "test");
}

enum call_start call_webhook_test(struct request *request, const struct call *call)
{
    return hand_on(request, call, test, false);
}
