/* Moments in requests: every spelling of RFC 3339 is read as its moment, and no other text is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/test_range.h"
#include "service/calls/calls.h"
#include "sql/ledger/ledger.h"

enum { ROUNDS = 200000, TEXT_MAX = 96 };

static const int64_t FIRST_MS = INT64_C(946684800000);
static const int64_t LAST_MS = INT64_C(253402300799999);

/* Reads a copy that ends with the NUL, so that a sanitizer finds a read past its end. */
static bool parse(const char *text, size_t length, int64_t *ms_out)
{
    char *copy = strndup(text, length);
    assert_non_null(copy);
    *ms_out = -1;
    bool good = sale_time_parse(copy, ms_out);
    free(copy);
    return good;
}

static void test_times_are_read_to_the_ms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"2026-11-20T21:30:00Z", 1795210200000},
        {"2026-11-20T21:30:00.1Z", 1795210200100},
        {"2026-11-20T21:30:00.12Z", 1795210200120},
        {"2026-11-20T21:30:00.123Z", 1795210200123},
        {"2026-11-20T21:30:00.1239999999999999999999999999Z", 1795210200123},
        {"2026-11-20t21:30:00z", 1795210200000},
        {"2026-11-21T05:30:00+08:00", 1795210200000},
        {"2026-11-21T03:00:00.5+05:30", 1795210200500},
        {"2026-11-20T16:30:00-05:00", 1795210200000},
        {"2026-11-20T21:30:00+00:00", 1795210200000},
        {"2026-11-20T21:30:00-00:00", 1795210200000},
        {"2026-11-21T21:29:00+23:59", 1795210200000},
        {"2026-11-19T21:31:00-23:59", 1795210200000},
        {"2000-01-01T00:00:00.000Z", 946684800000},
        {"1999-12-31T12:00:00-12:00", 946684800000},
        {"2000-02-29T12:11:11.999Z", 951826271999},
        {"2024-02-29T23:59:59-01:00", 1709254799000},
        {"9999-12-31T23:59:59.999Z", 253402300799999},
        {"9999-12-31T23:59:59.999+00:01", 253402300739999},
        /* leap seconds: the moment at their end */
        {"2016-12-31T23:59:60Z", 1483228800000},
        {"2016-12-31T23:59:60.999Z", 1483228800000},
        {"2017-01-01T07:59:60+08:00", 1483228800000},
        {"2016-12-31T18:59:60.5-05:00", 1483228800000},
        {"2030-06-30T23:59:60Z", 1909094400000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t ms = 0;
        if (!parse(rows[i].text, strlen(rows[i].text), &ms) || ms != rows[i].ms)
            fail_msg("\"%s\" is %lld", rows[i].text, (long long)ms);
    }
}

static void test_other_texts_are_no_times(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "Z",
        "now",
        "2026-11-20",
        "2026-11-20T21:30Z",
        "2026-11-20T21:30:00",
        "2026-11-20 21:30:00Z",
        "2026-11-20T21:30:00.Z",
        "2026-11-20T21:30:00.+08:00",
        "2026-11-20T21:30:00,123Z",
        "2026-11-20T21:30:00.12aZ",
        "2026-11-20T21:30:00.1 Z",
        "2026-11-20T21:30:00Z ",
        " 2026-11-20T21:30:00Z",
        "2026-11-20T21:30:00ZZ",
        "2026-11-20T21:30:00Z+00:00",
        "2026-11-20T21:30:00+08",
        "2026-11-20T21:30:00+0800",
        "2026-11-20T21:30:00+8:00",
        "2026-11-20T21:30:00+08:0",
        "2026-11-20T21:30:00+08:000",
        "2026-11-20T21:30:00+08:60",
        "2026-11-20T21:30:00+24:00",
        "2026-11-20T21:30:00 08:00", /* a plus that a form decoder made a blank */
        "2026-11-20T21:30:00+-1:00",
        "2026-11-20T21:30:00+08:00[Asia/Shanghai]",
        "2026-1-20T21:30:00Z",
        "+026-11-20T21:30:00Z",
        "-026-11-20T21:30:00Z",
        "20261120T213000Z",
        "12026-11-20T21:30:00Z",
        "1999-12-31T23:59:59Z",
        "2000-01-01T00:00:00+00:01",
        "1998-12-31T23:59:59-23:59",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-00:01",
        "9999-12-31T23:59:60Z",
        "2026-00-20T21:30:00Z",
        "2026-13-20T21:30:00Z",
        "2026-11-00T21:30:00Z",
        "2026-11-31T21:30:00Z",
        "2026-02-29T21:30:00Z",
        "2100-02-29T21:30:00Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T21:60:00Z",
        "2026-11-20T21:30:60Z",
        "2026-11-20T23:59:60Z",
        "2016-12-31T23:59:60+08:00",
        "2016-12-31T23:59:61Z",
        "2026-11-20T21:30:61Z",
        "9999-12-31T24:00:00Z",
    };
    int64_t ms = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (parse(texts[i], strlen(texts[i]), &ms))
            fail_msg("\"%s\" was taken for a time", texts[i]);
    assert_false(parse("2026-11-20T21:30:00Z", 19, &ms));
    assert_false(parse("2026-11-20T21:30:00\0Z", 21, &ms));
}

/* ---- properties ---- */

static int64_t random_up_to(int64_t max)
{
    int64_t bits = (int64_t)random() << 31 | (int64_t)random();
    return bits % (max + 1);
}

/* Writes the moment at an offset: a client's spelling, made by gmtime_r of the shifted moment. */
static void write_time(int64_t ms, int offset_min, int digits, char text[TEXT_MAX])
{
    struct tm local;
    time_t seconds = (time_t)(ms / 1000) + (time_t)offset_min * 60;
    char fraction[16], offset[32] = "Z";
    gmtime_r(&seconds, &local);
    snprintf(fraction, sizeof fraction, ".%03d", (int)(ms % 1000));
    if (offset_min != 0 || random() % 2)
        snprintf(offset, sizeof offset, "%c%02d:%02d", offset_min < 0 ? '-' : '+',
                 abs(offset_min) / 60, abs(offset_min) % 60);
    snprintf(text, TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d%s%.*s%s", local.tm_year + 1900,
             local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, fraction,
             digits, "987654321", offset);
    for (char *at = text; random() % 2 && *at; at++)
        *at = (char)tolower(*at);
}

static void test_every_moment_is_read_at_every_offset(void **state)
{
    (void)state;
    srandom(1);
    for (int i = 0; i < ROUNDS; i++) {
        char text[TEXT_MAX], again[LEDGER_TIME_SIZE];
        int64_t ms = FIRST_MS + random_up_to(LAST_MS - FIRST_MS), read = 0;
        int offset_min = (int)random_up_to(2 * 1439) - 1439;
        if (i % 4 == 0) /* near a bound */
            ms = i % 8 == 0 ? FIRST_MS + random_up_to(86400000) : LAST_MS - random_up_to(86400000);
        write_time(ms, offset_min, (int)random_up_to(9), text);
        bool good = parse(text, strlen(text), &read);
        bool five_digits = strchr(text, '-') - text > 4; /* east of the last day of the year 9999 */
        if (good == five_digits || (good && read != ms))
            fail_msg("%s is %lld, not %lld", text, (long long)read, (long long)ms);
        if (!good)
            continue;
        ledger_time_format(read, again); /* what an answer says is read as the same moment */
        assert_true(parse(again, strlen(again), &read));
        assert_int_equal(read, ms);
    }
}

static void test_moments_beyond_the_bounds_are_refused_at_every_offset(void **state)
{
    (void)state;
    srandom(2);
    for (int i = 0; i < ROUNDS / 10; i++) {
        char text[TEXT_MAX];
        int64_t past = 1 + random_up_to(86400000), read = 0;
        int64_t ms = i % 2 ? FIRST_MS - past : LAST_MS + past;
        write_time(ms, (int)random_up_to(2 * 1439) - 1439, 0, text);
        if (parse(text, strlen(text), &read))
            fail_msg("%s was taken, as %lld", text, (long long)read);
    }
}

/* Whatever is read is a moment within the bounds, and its ms are found again in the text. */
static void test_mutants_are_refused_or_moments(void **state)
{
    (void)state;
    static const char bytes[] = "0123456789-+:.TtZz \xff,60";
    srandom(3);
    for (int i = 0; i < ROUNDS; i++) {
        char text[TEXT_MAX];
        int64_t read = 0;
        write_time(FIRST_MS + random_up_to(LAST_MS - FIRST_MS), (int)random_up_to(1439), 2, text);
        size_t length = strlen(text);
        for (int64_t n = random_up_to(2); n >= 0; n--)
            text[random_up_to((int64_t)length - 1)] = bytes[random_up_to(sizeof bytes - 2)];
        if (random() % 4 == 0)
            length = (size_t)random_up_to((int64_t)length);
        if (!parse(text, length, &read))
            continue;
        assert_int_in_range(read, FIRST_MS, LAST_MS);
        assert_true(length >= strlen("2026-11-20T21:30:00Z"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_are_read_to_the_ms),
        cmocka_unit_test(test_other_texts_are_no_times),
        cmocka_unit_test(test_every_moment_is_read_at_every_offset),
        cmocka_unit_test(test_moments_beyond_the_bounds_are_refused_at_every_offset),
        cmocka_unit_test(test_mutants_are_refused_or_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
