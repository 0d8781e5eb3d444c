/* A moment in a request, as RFC 3339 writes it. */
#include "service/calls/sale_time.h"

#include <time.h>

static const int64_t FIRST_MS = INT64_C(946684800000);   /* 2000-01-01T00:00:00.000Z */
static const int64_t LAST_MS = INT64_C(253402300799999); /* 9999-12-31T23:59:59.999Z */

enum { YEAR_MIN = 1999 }; /* the year in which 2000 begins, west of Greenwich */

struct reader {
    const char *at, *end;
};

static bool read_char(struct reader *reader, const char *one_of)
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
static bool read_number(struct reader *reader, int digits, int min, int max, int *out)
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
static bool read_fraction(struct reader *reader, int *ms_out)
{
    int digit = 0;
    *ms_out = 0;
    if (!read_char(reader, "."))
        return true;
    if (!read_number(reader, 1, 0, 9, &digit))
        return false;
    for (int unit = 100;; unit /= 10) {
        *ms_out += digit * unit;
        if (!read_number(reader, 1, 0, 9, &digit))
            return true; /* and whatever stands here is no part of the fraction */
    }
}

static bool read_offset(struct reader *reader, int *minutes_out)
{
    int hours = 0, minutes = 0;
    *minutes_out = 0;
    if (read_char(reader, "Zz"))
        return true;
    bool west = read_char(reader, "-");
    if ((!west && !read_char(reader, "+")) || !read_number(reader, 2, 0, 23, &hours) ||
        !read_char(reader, ":") || !read_number(reader, 2, 0, 59, &minutes))
        return false;
    *minutes_out = (hours * 60 + minutes) * (west ? -1 : 1);
    return true;
}

static bool read_all(struct reader *reader, struct tm *local, int *ms_out, int *offset_out)
{
    bool good = read_number(reader, 4, YEAR_MIN, 9999, &local->tm_year) && read_char(reader, "-") &&
                read_number(reader, 2, 1, 12, &local->tm_mon) && read_char(reader, "-") &&
                read_number(reader, 2, 1, 31, &local->tm_mday) && read_char(reader, "Tt") &&
                read_number(reader, 2, 0, 23, &local->tm_hour) && read_char(reader, ":") &&
                read_number(reader, 2, 0, 59, &local->tm_min) && read_char(reader, ":") &&
                read_number(reader, 2, 0, 60, &local->tm_sec) && read_fraction(reader, ms_out) &&
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
    struct reader reader = {text, text + length};
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
