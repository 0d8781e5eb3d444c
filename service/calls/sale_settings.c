/* The settings of a sale as JSON: read from a body, written in an answer. */
#include "service/calls/sale_settings.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "service/service.h"
#include "sql/ledger/ledger.h"

/* ---- moments ---- */

static const int64_t FIRST_MS = INT64_C(946684800000);   /* 2000-01-01T00:00:00.000Z */
static const int64_t LAST_MS = INT64_C(253402300799999); /* 9999-12-31T23:59:59.999Z */

enum { YEAR_MIN = 1999 }; /* the year in which 2000 begins, west of Greenwich */

struct time_reader {
    const char *at, *end;
};

static bool read_char(struct time_reader *reader, const char *one_of)
{
    if (reader->at == reader->end)
        return false;
    for (; *one_of; one_of++)
        if (*reader->at == *one_of) {
            reader->at++;
            return true;
        }
    return false;
}

/* Reads exactly `digits` digits of a number from min to max. */
static bool read_digits(struct time_reader *reader, int digits, int min, int max, int *out)
{
    *out = 0;
    for (; digits > 0; digits--, reader->at++) {
        if (reader->at == reader->end || *reader->at < '0' || *reader->at > '9')
            return false;
        *out = *out * 10 + (*reader->at - '0');
    }
    return *out >= min && *out <= max;
}

/* Nothing, or a point and digits. */
static bool read_fraction(struct time_reader *reader, int *ms_out)
{
    int digit = 0;
    *ms_out = 0;
    if (!read_char(reader, "."))
        return true;
    if (!read_digits(reader, 1, 0, 9, &digit))
        return false;
    for (int unit = 100;; unit /= 10) {
        *ms_out += digit * unit;
        if (!read_digits(reader, 1, 0, 9, &digit))
            return true; /* and whatever stands here is no part of the fraction */
    }
}

static bool read_offset(struct time_reader *reader, int *minutes_out)
{
    int hours = 0, minutes = 0;
    *minutes_out = 0;
    if (read_char(reader, "Zz"))
        return true;
    bool west = read_char(reader, "-");
    if ((!west && !read_char(reader, "+")) || !read_digits(reader, 2, 0, 23, &hours) ||
        !read_char(reader, ":") || !read_digits(reader, 2, 0, 59, &minutes))
        return false;
    *minutes_out = (hours * 60 + minutes) * (west ? -1 : 1);
    return true;
}

static bool read_all(struct time_reader *reader, struct tm *local, int *ms_out, int *offset_out)
{
    bool good = read_digits(reader, 4, YEAR_MIN, 9999, &local->tm_year) && read_char(reader, "-") &&
                read_digits(reader, 2, 1, 12, &local->tm_mon) && read_char(reader, "-") &&
                read_digits(reader, 2, 1, 31, &local->tm_mday) && read_char(reader, "Tt") &&
                read_digits(reader, 2, 0, 23, &local->tm_hour) && read_char(reader, ":") &&
                read_digits(reader, 2, 0, 59, &local->tm_min) && read_char(reader, ":") &&
                read_digits(reader, 2, 0, 60, &local->tm_sec) && read_fraction(reader, ms_out) &&
                read_offset(reader, offset_out) && reader->at == reader->end;
    local->tm_year -= 1900;
    local->tm_mon -= 1;
    return good;
}

/* A leap second ends with the month in UTC, so its end is the first moment of one. */
static bool ends_month(time_t seconds)
{
    struct tm utc;
    gmtime_r(&seconds, &utc);
    return utc.tm_mday == 1 && utc.tm_hour == 0 && utc.tm_min == 0 && utc.tm_sec == 0;
}

bool sale_time_parse(const char *text, size_t length, int64_t *ms_out)
{
    struct time_reader reader = {text, text + length};
    struct tm local = {0};
    int ms = 0, offset_min = 0;
    *ms_out = 0;
    if (!read_all(&reader, &local, &ms, &offset_min))
        return false;
    int day = local.tm_mday;
    bool leap = local.tm_sec == 60;
    local.tm_sec -= leap;
    time_t seconds = timegm(&local) - (time_t)offset_min * 60 + leap;
    /* timegm makes March 1 of a February 29 that does not exist. */
    if (local.tm_mday != day || (leap && !ends_month(seconds)))
        return false;
    *ms_out = (int64_t)seconds * 1000 + (leap ? 0 : ms);
    return *ms_out >= FIRST_MS && *ms_out <= LAST_MS;
}

/* ---- from a body ---- */

#define TIME_FORM                                                                                  \
    " must be null or an RFC 3339 time with Z or an offset, like 2026-11-20T21:30:00Z or "         \
    "2026-11-21T05:30:00+08:00, from the year 2000 to 9999 in UTC."

/* Null is a value: it takes the setting away. 0 stands for that. */
static bool read_time(const json_t *value, int64_t *ms_out)
{
    *ms_out = 0;
    return json_is_null(value) ||
           (json_is_string(value) &&
            sale_time_parse(json_string_value(value), json_string_length(value), ms_out));
}

static bool read_number(const json_t *value, json_int_t max, uint32_t *out)
{
    json_int_t number = json_integer_value(value);
    *out = (uint32_t)number;
    return json_is_null(value) || (json_is_integer(value) && number >= 1 && number <= max);
}

const char *sale_settings_read(const json_t *object, struct stock_change *change_out)
{
    struct ledger_settings *settings = &change_out->settings;
    const json_t *starts = json_object_get(object, "starts_at");
    const json_t *ends = json_object_get(object, "ends_at");
    const json_t *limit = json_object_get(object, "per_user_limit");
    const json_t *pay = json_object_get(object, "pay_within_s");
    const json_t *paused = json_object_get(object, "paused");
    memset(change_out, 0, sizeof *change_out);
    change_out->fields = (starts ? STOCK_CHANGE_STARTS : 0) | (ends ? STOCK_CHANGE_ENDS : 0) |
                         (limit ? STOCK_CHANGE_LIMIT : 0) | (pay ? STOCK_CHANGE_PAY : 0) |
                         (paused ? STOCK_CHANGE_PAUSED : 0);
    if (starts && !read_time(starts, &settings->starts_ms))
        return "starts_at" TIME_FORM;
    if (ends && !read_time(ends, &settings->ends_ms))
        return "ends_at" TIME_FORM;
    if (limit && !read_number(limit, PER_USER_LIMIT_MAX, &settings->per_user_limit))
        return "per_user_limit must be null or a whole number from 1 to 10000000.";
    if (pay && !read_number(pay, PAY_WITHIN_S_MAX, &settings->pay_within_s))
        return "pay_within_s must be null or a whole number from 1 to 2592000.";
    if (paused && !json_is_boolean(paused))
        return "paused must be true or false.";
    settings->paused = json_is_true(paused);
    /* Only what the body says; stock_change compares with the setting that stays. */
    if (settings->ends_ms != 0 && settings->ends_ms <= settings->starts_ms)
        return "ends_at must be later than starts_at.";
    return NULL;
}

size_t sale_settings_count(const struct stock_change *change)
{
    return (size_t)__builtin_popcount(change->fields);
}

static void add_time(json_t *object, const char *name, int64_t ms)
{
    char text[LEDGER_TIME_SIZE];
    if (ms == 0)
        return;
    ledger_time_format(ms, text);
    json_object_set_new(object, name, json_string(text));
}

static void add_number(json_t *object, const char *name, uint32_t number)
{
    if (number > 0)
        json_object_set_new(object, name, json_integer(number));
}

void sale_settings_add(json_t *object, const struct ledger_settings *settings)
{
    add_time(object, "starts_at", settings->starts_ms);
    add_time(object, "ends_at", settings->ends_ms);
    add_number(object, "per_user_limit", settings->per_user_limit);
    add_number(object, "pay_within_s", settings->pay_within_s);
    json_object_set_new(object, "paused", json_boolean(settings->paused));
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

/* ---- for the log ---- */

static char *log_time(char *at, const char *end, const char *name, int64_t ms)
{
    char text[LEDGER_TIME_SIZE] = "none";
    if (ms != 0)
        ledger_time_format(ms, text);
    return at + snprintf(at, (size_t)(end - at), " %s=%s", name, text);
}

static char *log_number(char *at, const char *end, const char *name, uint32_t number)
{
    char text[16] = "none";
    if (number != 0)
        snprintf(text, sizeof text, "%u", number);
    return at + snprintf(at, (size_t)(end - at), " %s=%s", name, text);
}

const char *sale_settings_log(const struct stock_change *change, char out[SALE_SETTINGS_LOG_SIZE])
{
    const struct ledger_settings *settings = &change->settings;
    const char *end = out + SALE_SETTINGS_LOG_SIZE;
    char *at = out;
    *at = '\0';
    if (change->fields & STOCK_CHANGE_PAUSED)
        at += snprintf(at, (size_t)(end - at), " paused=%s", settings->paused ? "true" : "false");
    if (change->fields & STOCK_CHANGE_LIMIT)
        at = log_number(at, end, "per_user_limit", settings->per_user_limit);
    if (change->fields & STOCK_CHANGE_PAY)
        at = log_number(at, end, "pay_within_s", settings->pay_within_s);
    if (change->fields & STOCK_CHANGE_STARTS)
        at = log_time(at, end, "starts_at", settings->starts_ms);
    if (change->fields & STOCK_CHANGE_ENDS)
        at = log_time(at, end, "ends_at", settings->ends_ms);
    assert(at < end);
    return out;
}
