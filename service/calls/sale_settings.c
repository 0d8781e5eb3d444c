/* The settings of a sale as JSON: read from a body, written in an answer. */
#include "service/calls/calls.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "service/service.h"
#include "sql/ledger/ledger.h"

/* ---- moments ---- */

static const int64_t FIRST_MS = INT64_C(946684800000);   /* 2000-01-01T00:00:00.000Z */
static const int64_t LAST_MS = INT64_C(253402300799999); /* 9999-12-31T23:59:59.999Z */

/* Whether the text begins with this form, in which 0 stands for any digit. */
static bool begins(const char *text, const char *form)
{
    for (; *form; text++, form++)
        if (*form == '0' ? *text < '0' || *text > '9' : *text != *form)
            return false;
    return true;
}

/* Reads date and time of day, which may be out of range. False when the text has another form. */
static bool read_local(const char *text, struct tm *local)
{
    if (!begins(text, "0000-00-00") || (text[10] != 'T' && text[10] != 't') ||
        !begins(text + 11, "00:00:00"))
        return false;
    int read = sscanf(text, "%4d-%2d-%2d%*c%2d:%2d:%2d", &local->tm_year, &local->tm_mon,
                      &local->tm_mday, &local->tm_hour, &local->tm_min, &local->tm_sec);
    local->tm_year -= 1900;
    local->tm_mon -= 1;
    return read == 6;
}

/* Reads nothing, or a point and digits, and returns where they end. */
static const char *read_fraction(const char *at, int *ms_out)
{
    *ms_out = 0;
    if (!begins(at, ".0"))
        return at;
    at++;
    for (int unit = 100; begins(at, "0"); at++, unit /= 10)
        *ms_out += (*at - '0') * unit;
    return at;
}

static bool read_offset(const char *at, int *minutes_out)
{
    int hours = 0, minutes = 0;
    *minutes_out = 0;
    if (strcmp(at, "Z") == 0 || strcmp(at, "z") == 0)
        return true;
    if ((*at != '+' && *at != '-') || !begins(at + 1, "00:00") || at[6] != '\0')
        return false;
    int read = sscanf(at + 1, "%2d:%2d", &hours, &minutes);
    *minutes_out = (hours * 60 + minutes) * (*at == '-' ? -1 : 1);
    return read == 2 && hours < 24 && minutes < 60;
}

/* A leap second ends with the month in UTC, so its end is the first moment of one. */
static bool ends_month(time_t seconds)
{
    struct tm utc;
    gmtime_r(&seconds, &utc);
    return utc.tm_mday == 1 && utc.tm_hour == 0 && utc.tm_min == 0 && utc.tm_sec == 0;
}

bool sale_time_parse(const char *text, int64_t *ms_out)
{
    struct tm local = {0};
    int ms = 0, offset_min = 0;
    *ms_out = 0;
    if (!read_local(text, &local) || !read_offset(read_fraction(text + 19, &ms), &offset_min))
        return false;
    bool leap = local.tm_sec == 60;
    local.tm_sec -= leap;
    struct tm given = local;
    time_t seconds = timegm(&local) - (time_t)offset_min * 60 + leap;
    /* timegm carries what is out of range: it makes March 1 of a February 29 that there is not. */
    if (local.tm_mon != given.tm_mon || local.tm_mday != given.tm_mday ||
        local.tm_hour != given.tm_hour || local.tm_min != given.tm_min ||
        local.tm_sec != given.tm_sec || (leap && !ends_month(seconds)))
        return false;
    *ms_out = (int64_t)seconds * 1000 + (leap ? 0 : ms);
    return *ms_out >= FIRST_MS && *ms_out <= LAST_MS;
}

/* ---- the settings ---- */

#define TIME_FORM                                                                                  \
    " must be null or an RFC 3339 time with Z or an offset, like 2026-11-20T21:30:00Z or "         \
    "2026-11-21T05:30:00+08:00, from the year 2000 to 9999 in UTC."

/* The i-th setting is that of the i-th bit of stock_change.fields. */
static const struct call_field settings_fields[FIELDS_MAX] = {
    {"starts_at", FIELD_TIME_OR_NULL, offsetof(struct ledger_settings, starts_ms),
     .detail = "starts_at" TIME_FORM},
    {"ends_at", FIELD_TIME_OR_NULL, offsetof(struct ledger_settings, ends_ms),
     .detail = "ends_at" TIME_FORM},
    {"per_user_limit", FIELD_NUMBER_OR_NULL, offsetof(struct ledger_settings, per_user_limit),
     "per_user_limit must be null or a whole number from 1 to 10000000.", .min = 1,
     .max = PER_USER_LIMIT_MAX},
    {"pay_within_s", FIELD_NUMBER_OR_NULL, offsetof(struct ledger_settings, pay_within_s),
     "pay_within_s must be null or a whole number from 1 to 2592000.", .min = 1,
     .max = PAY_WITHIN_S_MAX},
    {"paused", FIELD_SWITCH, offsetof(struct ledger_settings, paused),
     .detail = "paused must be true or false."},
};

static_assert(STOCK_CHANGE_STARTS == 1 << 0 && STOCK_CHANGE_ENDS == 1 << 1 &&
                  STOCK_CHANGE_LIMIT == 1 << 2 && STOCK_CHANGE_PAY == 1 << 3 &&
                  STOCK_CHANGE_PAUSED == 1 << 4 && STOCK_CHANGE_ALL == (1 << FIELDS_MAX) - 1,
              "the order of settings_fields");

const char *sale_settings_read(const json_t *object, struct stock_change *change_out)
{
    struct ledger_settings *settings = &change_out->settings;
    memset(change_out, 0, sizeof *change_out);
    const char *detail = call_read_fields(object, settings_fields, settings, &change_out->fields);
    /* Only what the body says; stock_change compares with the setting that stays. */
    bool reversed = settings->ends_ms != 0 && settings->ends_ms <= settings->starts_ms;
    return !detail && reversed ? "ends_at must be later than starts_at." : detail;
}

/* The setting in words, maybe in `buffer`; NULL when it is not set. */
static const char *setting_text(const struct ledger_settings *settings,
                                const struct call_field *field, char buffer[LEDGER_TIME_SIZE])
{
    const void *value = (const char *)settings + field->at;
    if (field->kind == FIELD_SWITCH)
        return *(const bool *)value ? "true" : "false";
    if (field->kind == FIELD_TIME_OR_NULL) {
        int64_t ms = *(const int64_t *)value;
        ledger_time_format(ms, buffer);
        return ms != 0 ? buffer : NULL;
    }
    uint32_t number = *(const uint32_t *)value;
    snprintf(buffer, LEDGER_TIME_SIZE, "%u", number);
    return number != 0 ? buffer : NULL;
}

void sale_settings_add(json_t *object, const struct ledger_settings *settings)
{
    char buffer[LEDGER_TIME_SIZE];
    for (size_t i = 0; i < FIELDS_MAX; i++) {
        const struct call_field *field = &settings_fields[i];
        const char *text = setting_text(settings, field, buffer);
        if (text) /* numbers, true and false are JSON as they stand */
            json_object_set_new(object, field->name,
                                field->kind == FIELD_TIME_OR_NULL
                                    ? json_string(text)
                                    : json_loads(text, JSON_DECODE_ANY, NULL));
    }
    if (settings->counting)
        json_object_set_new(object, "counting", json_true());
}

json_t *sale_json(const struct ledger_sale *sale)
{
    json_t *object =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "sku", sale->sku, "round", (int)sale->round,
                  "total", (int)sale->total, "segments", (int)sale->segments, "sold",
                  (int)sale->sold, "available", (int)(sale->total - sale->sold));
    sale_settings_add(object, &sale->settings);
    return object;
}

const char *sale_settings_log(const struct stock_change *change, char out[SALE_SETTINGS_LOG_SIZE])
{
    char buffer[LEDGER_TIME_SIZE];
    int length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < FIELDS_MAX; i++) {
        if (!(change->fields & 1U << i))
            continue;
        const char *text = setting_text(&change->settings, &settings_fields[i], buffer);
        length += snprintf(out + length, SALE_SETTINGS_LOG_SIZE - (size_t)length, " %s=%s",
                           settings_fields[i].name, text ? text : "none");
        assert(length < SALE_SETTINGS_LOG_SIZE);
    }
    return out;
}
