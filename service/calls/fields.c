/* Reads members of a JSON object by tables of fields. */
#include "service/calls/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- times ---- */

static const int64_t FIRST_MS = INT64_C(946684800000);   /* 2000-01-01T00:00:00.000Z */
static const int64_t LAST_MS = INT64_C(253402300799999); /* 9999-12-31T23:59:59.999Z */

/* True when the text begins with this form, in which 0 stands for any digit. */
static bool begins(const char *text, const char *form)
{
    for (; *form; text++, form++)
        if (*form == '0' ? *text < '0' || *text > '9' : *text != *form)
            return false;
    return true;
}

/* Reads date and time of day, unchecked for range. False when the text has another form. */
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

/* Reads an optional fraction, and returns where it ends. */
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

/* A leap second ends with a month in UTC, so its end is a month's first moment. */
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
    /* timegm normalises values out of range: February 29 of a common year becomes March 1. */
    if (local.tm_mon != given.tm_mon || local.tm_mday != given.tm_mday ||
        local.tm_hour != given.tm_hour || local.tm_min != given.tm_min ||
        local.tm_sec != given.tm_sec || (leap && !ends_month(seconds)))
        return false;
    *ms_out = (int64_t)seconds * 1000 + (leap ? 0 : ms);
    return *ms_out >= FIRST_MS && *ms_out <= LAST_MS;
}

/* ---- objects ---- */

json_t *call_parse_object(const char *text, size_t length, const char *overflow,
                          const char **detail_out)
{
    json_error_t error;
    /* Two readers may understand a duplicate member differently: refused. */
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    *detail_out = NULL;
    if (json_is_object(object))
        return object;
    if (object)
        *detail_out = "The body must be a JSON object.";
    else if (json_error_code(&error) == json_error_duplicate_key)
        *detail_out = "A field comes twice.";
    else if (json_error_code(&error) == json_error_numeric_overflow)
        *detail_out = overflow;
    else
        *detail_out = "The body is not valid JSON.";
    json_decref(object);
    return NULL;
}

static bool read_word(const json_t *value, const struct call_field *field, void *out)
{
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    *(bool *)out = strcmp(text, field->words[1]) == 0;
    return *(bool *)out || strcmp(text, field->words[0]) == 0;
}

static bool read_number(const json_t *value, const struct call_field *field, void *out)
{
    json_int_t number = json_integer_value(value);
    *(uint32_t *)out = (uint32_t)number;
    return json_is_integer(value) && number >= field->min && number <= field->max;
}

bool call_read_number(const char *text, size_t length, uint64_t max, uint64_t *number_out)
{
    enum { DIGITS_MAX = 19 };
    bool number = length > 0 && length <= DIGITS_MAX && strspn(text, "0123456789") == length;
    *number_out = number ? strtoull(text, NULL, 10) : 0;
    return number && *number_out <= max;
}

static bool read_digits(const json_t *value, const struct call_field *field, void *out)
{
    uint64_t number = 0;
    bool valid = json_is_string(value) &&
                 call_read_number(json_string_value(value), json_string_length(value),
                                  (uint64_t)field->max, &number);
    *(uint32_t *)out = (uint32_t)number;
    return valid && number >= (uint64_t)field->min;
}

/* Null, which unsets a setting, is stored as 0. */
static bool read_field(const json_t *value, const struct call_field *field, void *out)
{
    switch (field->kind) {
    case FIELD_TEXT:
        return json_is_string(value) &&
               field->copy(json_string_value(value), json_string_length(value), out);
    case FIELD_SWITCH:
        *(bool *)out = json_is_true(value);
        return json_is_boolean(value);
    case FIELD_NUMBER_OR_NULL:
        *(uint32_t *)out = 0;
        return json_is_null(value) || read_number(value, field, out);
    case FIELD_TIME:
        return json_is_string(value) && sale_time_parse(json_string_value(value), out);
    case FIELD_TIME_OR_NULL:
        *(int64_t *)out = 0;
        return json_is_null(value) ||
               (json_is_string(value) && sale_time_parse(json_string_value(value), out));
    case FIELD_WORD:
        return read_word(value, field, out);
    case FIELD_DIGITS:
        return read_digits(value, field, out);
    default:
        return read_number(value, field, out);
    }
}

const char *call_read_fields(const json_t *object, const struct call_field fields[FIELDS_MAX],
                             void *out, unsigned *found_out)
{
    *found_out = 0;
    for (size_t i = 0; i < FIELDS_MAX && fields[i].name; i++) {
        const json_t *value = json_object_get(object, fields[i].name);
        if (value ? !read_field(value, &fields[i], (char *)out + fields[i].at) : fields[i].must)
            return fields[i].detail;
        *found_out |= value ? 1U << i : 0;
    }
    return NULL;
}
