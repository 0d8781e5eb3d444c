/* The operator's calls that steer this daemon, which the HTTP thread answers at once:
 * /admin/log-level and /admin/drain. */
#include "service/calls/calls.h"

#include <jansson.h>

#include "service/calls/call.h"
#include "service/drain.h"
#include "service/log/log.h"

enum {
    FOR_S_MAX = 86400,
    LAME_DUCK_MS_MAX = 600000, /* as of the option */
};

/* For an action's note: the request may have been another call's before. */
static void clear_sku(struct request *request)
{
    request->call.sku[0] = '\0';
}

/* ---- the level of the log ---- */

static enum call_start answer_level(struct request *request)
{
    unsigned left_s;
    enum log_level level = log_level_now(&left_s);
    json_t *left = left_s > 0 ? json_integer(left_s) : NULL;
    answer_json(&request->answer, 200,
                json_pack("{s:s,s:o*}", "level", log_level_name(level), "for_s", left));
    return START_ANSWERED;
}

enum call_start call_process_level_get(struct request *request, const struct call *call)
{
    (void)call;
    return answer_level(request);
}

/* Reads a member that may be absent; then it is `otherwise`. False when it has another value. */
static bool read_optional(const json_t *object, const char *name, json_int_t min, json_int_t max,
                          unsigned otherwise, unsigned *out)
{
    if (json_object_get(object, name))
        return call_read_number(object, name, min, max, out);
    *out = otherwise;
    return true;
}

static const char *read_level(const json_t *object, enum log_level *level_out, unsigned *for_s_out)
{
    const json_t *level = json_object_get(object, "level");
    if (!json_is_string(level) || !log_level_parse(json_string_value(level), level_out))
        return "level must be debug, info, warn or error.";
    if (!read_optional(object, "for_s", 1, FOR_S_MAX, 0, for_s_out))
        return "for_s must be a whole number from 1 to 86400.";
    return json_object_size(object) > 1 + (size_t)(*for_s_out > 0)
               ? "There is a field other than level and for_s."
               : NULL;
}

/* The line is written while the more talkative of the two levels holds. */
static void set_level(const struct request *request, enum log_level level, unsigned for_s)
{
    unsigned left_s;
    enum log_level before = log_level_now(&left_s);
    if (level < before)
        log_level_set(level, for_s);
    log_event(LOG_INFO, "log_level", "from=%s to=%s for_s=%u address=%s%s", log_level_name(before),
              log_level_name(level), for_s, call_address(request), TRACE_LOG(&request->trace));
    if (level >= before)
        log_level_set(level, for_s);
}

enum call_start call_process_level_put(struct request *request, const struct call *call)
{
    enum log_level level = LOG_INFO;
    unsigned for_s = 0;
    json_t *object = call_read_object(request, call);
    if (!object)
        return START_ANSWERED;
    const char *detail = read_level(object, &level, &for_s);
    json_decref(object);
    if (detail)
        return call_refuse(request, detail);
    set_level(request, level, for_s);
    enum call_start start = answer_level(request);
    clear_sku(request);
    call_note_action(call->service, request, "log_level", "level=%s for_s=%u",
                     log_level_name(level), for_s);
    return start;
}

/* ---- drain ---- */

static const char *state_name(const struct service *service)
{
    return atomic_load(&service->phase) == SERVICE_SERVES ? "serving" : "draining";
}

static enum call_start answer_state(struct service *service, struct request *request)
{
    struct drain_state drain = drain_state(&service->drain);
    json_t *left = drain.stops ? json_integer(drain.left_ms) : NULL;
    answer_json(&request->answer, 200,
                json_pack("{s:s,s:o*}", "status", state_name(service), "stops_in_ms", left));
    return START_ANSWERED;
}

static enum call_start refuse_late(struct request *request, const char *event)
{
    log_event(LOG_WARN, event, "result=too_late address=%s%s", call_address(request),
              TRACE_LOG(&request->trace));
    answer_detail(&request->answer, PROBLEM_INVALID_STATE,
                  "The daemon has begun to stop; nothing takes that back.");
    return START_ANSWERED;
}

enum call_start call_process_drain_get(struct request *request, const struct call *call)
{
    return answer_state(call->service, request);
}

/* NULL, or what is wrong with the body. */
static const char *read_drain(const json_t *object, unsigned usual_ms, bool *stops_out,
                              unsigned *ms_out)
{
    const json_t *stop = json_object_get(object, "stop");
    const json_t *ms = json_object_get(object, "lame_duck_ms");
    *stops_out = !stop || json_is_true(stop);
    if (stop && !json_is_boolean(stop))
        return "stop must be true or false.";
    if (!read_optional(object, "lame_duck_ms", 0, LAME_DUCK_MS_MAX, usual_ms, ms_out))
        return "lame_duck_ms must be a whole number from 0 to 600000.";
    return json_object_size(object) > (size_t) !!stop + (size_t) !!ms
               ? "There is a field other than stop and lame_duck_ms."
               : NULL;
}

enum call_start call_process_drain(struct request *request, const struct call *call)
{
    bool stops = true;
    unsigned ms = 0;
    json_t *object = call_read_object(request, call);
    if (!object)
        return START_ANSWERED;
    const char *detail = read_drain(object, call->service->config.lame_duck_ms, &stops, &ms);
    json_decref(object);
    if (detail)
        return call_refuse(request, detail);
    if (!drain_ask(&call->service->drain, stops, ms))
        return refuse_late(request, "drain");
    log_event(LOG_INFO, "drain", "result=ok stop=%s lame_duck_ms=%u address=%s%s",
              stops ? "true" : "false", ms, call_address(request), TRACE_LOG(&request->trace));
    enum call_start start = answer_state(call->service, request);
    clear_sku(request);
    call_note_action(call->service, request, "drain", "stop=%s lame_duck_ms=%u",
                     stops ? "true" : "false", ms);
    return start;
}

enum call_start call_process_drain_undo(struct request *request, const struct call *call)
{
    if (!drain_undo(&call->service->drain))
        return refuse_late(request, "drain_undone");
    log_event(LOG_INFO, "drain_undone", "result=ok address=%s%s", call_address(request),
              TRACE_LOG(&request->trace));
    enum call_start start = answer_state(call->service, request);
    clear_sku(request);
    call_note_action(call->service, request, "drain_undone", "result=ok");
    return start;
}
