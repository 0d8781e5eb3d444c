/* The operator's calls that control this daemon, answered by the HTTP thread: /admin/log-level and
 * /admin/drain. */
#include "service/calls/calls.h"

#include "service/drain.h"
#include "service/log/log.h"

enum {
    FOR_S_MAX = 86400,
    LAME_DUCK_MS_MAX = 600000, /* as for the option */
};

/* ---- the level of the log ---- */

static enum call_start answer_level(struct request *request, enum log_level level, unsigned left_s)
{
    json_t *left = left_s > 0 ? json_integer(left_s) : NULL;
    answer_json(&request->answer, 200,
                json_pack("{s:s,s:o*}", "level", log_level_name(level), "for_s", left));
    return START_ANSWERED;
}

enum call_start call_process_level_get(struct request *request, const struct call *call)
{
    (void)call;
    unsigned left_s;
    enum log_level level = log_level_now(&left_s);
    return answer_level(request, level, left_s);
}

struct level {
    enum log_level level;
    uint32_t for_s;
};

static bool copy_level(const char *text, size_t length, char *level_out)
{
    enum log_level *level = (void *)level_out; /* FIELD_TEXT writes to char */
    (void)length;                              /* the text ends at its only NUL */
    return log_level_parse(text, level);
}

enum call_start call_process_level_put(struct request *request, const struct call *call)
{
    static const struct call_body body = {
        .fields =
            {
                {"level", FIELD_TEXT, offsetof(struct level, level),
                 "level must be debug, info, warn or error.", .must = true, .copy = copy_level},
                {"for_s", FIELD_NUMBER, offsetof(struct level, for_s),
                 "for_s must be a whole number from 1 to 86400.", .min = 1, .max = FOR_S_MAX},
            },
        .other = "There is a field other than level and for_s.",
    };
    struct level asked = {.for_s = 0};
    if (!call_read_body(request, call, &body, &asked))
        return START_ANSWERED;
    unsigned left_s;
    enum log_level before = log_level_now(&left_s);
    /* Logs the change while the more verbose of the two levels applies. */
    if (asked.level < before)
        log_level_set(asked.level, asked.for_s);
    enum call_start start = answer_level(request, asked.level, asked.for_s);
    call_end_action(LOG_INFO, "log_level", call->service, request, "", "from=%s to=%s for_s=%u",
                    log_level_name(before), log_level_name(asked.level), asked.for_s);
    if (asked.level >= before)
        log_level_set(asked.level, asked.for_s);
    return start;
}

/* ---- drain ---- */

enum call_start call_process_drain_get(struct request *request, const struct call *call)
{
    struct service *service = call->service;
    struct drain_state drain = drain_state(&service->drain);
    bool serves = atomic_load(&service->phase) == SERVICE_SERVES;
    json_t *left = drain.stops ? json_integer(drain.left_ms) : NULL;
    answer_json(
        &request->answer, 200,
        json_pack("{s:s,s:o*}", "status", serves ? "serving" : "draining", "stops_in_ms", left));
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

struct drain_asked {
    bool stop;
    uint32_t lame_duck_ms;
};

enum call_start call_process_drain(struct request *request, const struct call *call)
{
    static const struct call_body body = {
        .fields =
            {
                {"stop", FIELD_SWITCH, offsetof(struct drain_asked, stop),
                 .detail = "stop must be true or false."},
                {"lame_duck_ms", FIELD_NUMBER, offsetof(struct drain_asked, lame_duck_ms),
                 "lame_duck_ms must be a whole number from 0 to 600000.", .max = LAME_DUCK_MS_MAX},
            },
        .other = "There is a field other than stop and lame_duck_ms.",
    };
    struct drain_asked asked = {true, call->service->config.lame_duck_ms};
    if (!call_read_body(request, call, &body, &asked))
        return START_ANSWERED;
    if (!drain_ask(&call->service->drain, asked.stop, asked.lame_duck_ms))
        return refuse_late(request, "drain");
    enum call_start start = call_process_drain_get(request, call);
    call_end_action(LOG_INFO, "drain", call->service, request, "",
                    "stop=%s lame_duck_ms=%u result=ok", asked.stop ? "true" : "false",
                    asked.lame_duck_ms);
    return start;
}

enum call_start call_process_drain_undo(struct request *request, const struct call *call)
{
    if (!drain_undo(&call->service->drain))
        return refuse_late(request, "drain_undone");
    enum call_start start = call_process_drain_get(request, call);
    call_end_action(LOG_INFO, "drain_undone", call->service, request, "", "result=ok");
    return start;
}
