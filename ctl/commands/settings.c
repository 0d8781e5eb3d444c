/* Changes a running sale's settings: seckillctl pause, resume, window, limit,
 * pay-within, late-payment, hold-max, grace. */

#define _GNU_SOURCE /* strptime, timegm */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "ctl/output/answer.h"
#include "ctl/http.h"
#include "ctl/commands/commands.h"
#include "ctl/commands/sale.h"

enum {
    PATH_SIZE = 160,
    TIME_SIZE = 64,
    UNITS_MAX = 10000000,
    SECONDS_MAX = 2592000,
    GRACE_S_MAX = 86400,
    SPAN_MAX = 1000000000, /* of +N in its unit */
};

/* ---- values ---- */

/* Returns the seconds of "30m"; negative if the text is not a span. */
static int64_t span_seconds(const char *text)
{
    static const struct {
        char unit;
        int seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char digits[16];
    int64_t number = 0;
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length >= sizeof digits || strlen(text) != length + 1)
        return -1;
    snprintf(digits, sizeof digits, "%.*s", (int)length, text);
    if (!number_parse(digits, 0, SPAN_MAX, &number))
        return -1;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (units[i].unit == text[length])
            return number * units[i].seconds;
    return -1;
}

/* Reads a time with its offset from UTC, in whole seconds. */
static bool read_time(const char *text, int64_t *seconds_out)
{
    struct tm given = {0}, local;
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &given);
    if (end && *end == '.')
        end += 1 + strspn(end + 1, "0123456789");
    end = end ? strptime(end, "%z", &given) : NULL;
    local = given; /* timegm turns February 30 into March */
    *seconds_out = timegm(&local) - given.tm_gmtoff;
    return end && *end == '\0' && local.tm_mday == given.tm_mday;
}

json_t *settings_time(const char *text, int64_t now_ms)
{
    char written[TIME_SIZE];
    struct tm utc;
    int64_t span_s = text[0] == '+' ? span_seconds(text + 1) : -1, s = now_ms / 1000;
    if (strcmp(text, "none") == 0)
        return json_null();
    if (span_s >= 0)
        s += span_s;
    else if (strcmp(text, "now") != 0 && !read_time(text, &s))
        return NULL;
    time_t seconds = (time_t)s;
    if (!gmtime_r(&seconds, &utc))
        return NULL;
    size_t length = strftime(written, sizeof written, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return length > 0 ? json_string(written) : NULL;
}

/* The settings that are an option and a command of the same name. */
static const struct sale_setting {
    enum ctl_option option;
    const char *member;
    int64_t min, max; /* max is 0 for a word */
    const char *wants;
} sale_settings[] = {
    {OPTION_LIMIT, "per_user_limit", 1, UNITS_MAX, "none or a whole number from 1 to 10000000"},
    {OPTION_PAY_WITHIN, "pay_within_s", 1, SECONDS_MAX,
     "none or a whole number of seconds from 1 to 2592000"},
    {OPTION_LATE_PAYMENT, "late_payment", 0, 0, "retake or refund"},
    {OPTION_HOLD_MAX, "hold_max_s", 1, SECONDS_MAX,
     "none or a whole number of seconds from 1 to 2592000"},
    {OPTION_GRACE, "grace_s", 0, GRACE_S_MAX, "none or a whole number of seconds from 0 to 86400"},
};
enum { SETTINGS_COUNT = sizeof sale_settings / sizeof sale_settings[0] };

static json_t *read_setting(const struct sale_setting *setting, const char *text)
{
    int64_t number = 0;
    if (setting->max == 0)
        return strcmp(text, "retake") == 0 || strcmp(text, "refund") == 0 ? json_string(text)
                                                                          : NULL;
    if (strcmp(text, "none") == 0)
        return json_null();
    return number_parse(text, setting->min, setting->max, &number) ? json_integer(number) : NULL;
}

static bool add(json_t *body, const char *member, json_t *value, enum ctl_option option,
                const char *wants)
{
    if (!value)
        return REFUSE(false, "%s must be %s", option_rows[option].name, wants);
    return json_object_set_new(body, member, value) == 0;
}

static bool add_time(json_t *body, const char *member, const struct options *options,
                     enum ctl_option option, int64_t now_ms)
{
    const char *text = options->values[option];
    return !text || add(body, member, settings_time(text, now_ms), option,
                        "none, now, a span from now like +30m, or " SETTINGS_TIME);
}

static bool add_setting(json_t *body, const struct sale_setting *setting, const char *text)
{
    return !text ||
           add(body, setting->member, read_setting(setting, text), setting->option, setting->wants);
}

bool settings_add(const struct options *options, json_t *body)
{
    int64_t now_ms = clock_wall_ms();
    bool good = add_time(body, "starts_at", options, OPTION_STARTS, now_ms) &&
                add_time(body, "ends_at", options, OPTION_ENDS, now_ms);
    if (options->values[OPTION_PAUSED])
        json_object_set_new(body, "paused", json_true());
    for (size_t i = 0; i < SETTINGS_COUNT && good; i++)
        good = add_setting(body, &sale_settings[i], options->values[sale_settings[i].option]);
    return good;
}

/* ---- changes ---- */

/* A repeat sets the same values again. Releases `body`. */
static int change(struct context *context, const char *sku, json_t *body)
{
    char path[PATH_SIZE];
    struct reply reply;
    snprintf(path, sizeof path, "/admin/sale/%s", sku);
    struct call call = {.class = CLASS_ADMIN, .method = "PATCH", .path = path, .body = body};
    int status = answer_ask(context, &call, &reply);
    json_decref(body);
    if (status != EX_OK)
        return status;
    answer_print_row(context, reply.json, sale_print);
    reply_free(&reply);
    return EX_OK;
}

/* Asks for confirmation if buyers of an open sale will be refused from now on. `what`: "pauses". */
static int confirm_stop(struct context *context, const char *sku, const char *what)
{
    struct reply reply;
    int status = sale_read(context, sku, &reply);
    if (status != EX_OK)
        return status;
    if (strcmp(sale_state(reply.json), "open") == 0)
        status = CONFIRM(context, "%s %s, which is open: round %lld, %lld of %lld units sold", what,
                         sku, answer_integer(reply.json, "round"),
                         answer_integer(reply.json, "sold"), answer_integer(reply.json, "total"));
    reply_free(&reply);
    return status;
}

int settings_pause(struct context *context)
{
    const char *sku = sale_argument(context, 1);
    int status = sku ? confirm_stop(context, sku, "pauses") : EX_USAGE;
    return status == EX_OK ? change(context, sku, json_pack("{s:b}", "paused", 1)) : status;
}

int settings_resume(struct context *context)
{
    const char *sku = sale_argument(context, 1);
    return sku ? change(context, sku, json_pack("{s:b}", "paused", 0)) : EX_USAGE;
}

/* True for a window without the present moment, which closes an open sale. */
static bool closes(const json_t *body)
{
    json_t *now = settings_time("now", clock_wall_ms());
    const char *text = json_string_value(now);
    const char *starts = answer_text(body, "starts_at"), *ends = answer_text(body, "ends_at");
    bool closed = (*ends && strcmp(ends, text) <= 0) || (*starts && strcmp(starts, text) > 0);
    json_decref(now);
    return closed;
}

int settings_window(struct context *context)
{
    const char *sku = sale_argument(context, 1);
    json_t *body = json_object();
    int status = sku && settings_add(&context->options, body) ? EX_OK : EX_USAGE;
    if (status == EX_OK && json_object_size(body) == 0)
        status = REFUSE(EX_USAGE, "--starts TIME, --ends TIME or both are needed");
    if (status == EX_OK && closes(body))
        status = confirm_stop(context, sku, "closes");
    if (status == EX_OK)
        return change(context, sku, body);
    json_decref(body);
    return status;
}

int settings_one(struct context *context)
{
    const char *sku = sale_argument(context, 1);
    const struct sale_setting *setting = sale_settings;
    json_t *body = json_object();
    while (strcmp(option_rows[setting->option].name, argument(context, 0)) != 0)
        setting++;
    if (sku && add_setting(body, setting, argument(context, 2)))
        return change(context, sku, body);
    json_decref(body);
    return EX_USAGE;
}
