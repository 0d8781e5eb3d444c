/* The command line, times, metrics and tables: reading and printing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/commands/daemon.h"
#include "ctl/options.h"
#include "ctl/output/say.h"
#include "ctl/commands/commands.h"
#include "ctl/output/table.h"

/* ---- the command line ---- */

static bool read_words(struct options *options_out, const char *words)
{
    static char copy[256];
    static char *argv[16];
    int argc = 0;
    snprintf(copy, sizeof copy, "seckillctl %s", words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    return options_read(options_out, argc, argv);
}

static void test_options_may_stand_anywhere(void **state)
{
    struct options options;
    (void)state;
    assert_true(read_words(&options, "--json reset demo --total=5 --yes -- --x"));
    assert_int_equal(options.argument_count, 3);
    assert_string_equal(options.arguments[0], "reset");
    assert_string_equal(options.arguments[2], "--x");
    assert_string_equal(options.values[OPTION_TOTAL], "5");
    assert_int_equal(options_given(&options), OPTION(JSON) | OPTION(TOTAL) | OPTION(YES));
    assert_true(read_words(&options, ""));
    assert_int_equal(options.argument_count, 0);
}

static void test_wrong_options(void **state)
{
    static const char *const bad[] = {"--fly", "-x", "reset --total", "--json=5", "--toke x"};
    struct options options;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(read_words(&options, bad[i]));
}

static void test_numbers(void **state)
{
    static const char *const bad[] = {"",    "-1",  "+1", " 1", "1 ",
                                      "0x1", "1e3", "0",  "11", "99999999999999999999"};
    int64_t number = 0;
    (void)state;
    assert_true(number_parse("10", 1, 10, &number));
    assert_int_equal(number, 10);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(number_parse(bad[i], 1, 10, &number));
}

/* ---- messages ---- */

static void test_control_characters_are_overwritten(void **state)
{
    char text[] = "a\x1b[2J\n\x7f\xc2\x9b"
                  "2J\xc2\x80\xc2\xa0\xc3\xa9\xe2\x96\x81 \xc2";
    (void)state;
    say_clean(text);
    assert_string_equal(text, "a?[2J????2J??\xc2\xa0\xc3\xa9\xe2\x96\x81 \xc2");
}

/* ---- times ---- */

static void assert_time(const char *text, const char *expected)
{
    json_t *value = settings_time(text, INT64_C(1795000000123));
    assert_non_null(value);
    assert_string_equal(json_string_value(value), expected);
    json_decref(value);
}

static void test_times(void **state)
{
    static const char *const bad[] = {"",
                                      "soon",
                                      "+",
                                      "+5",
                                      "+m",
                                      "+5y",
                                      "+-5m",
                                      "5m",
                                      "+99999999999999s",
                                      "2026-11-20 21:30",
                                      "10:00",
                                      "2026-11-20T21:30:00",
                                      "2026-11-20T21:30+08:00",
                                      "2026-02-30T00:00:00Z",
                                      "2026-11-20T21:30:00+08:00x",
                                      "2026-11-20T25:30:00Z"};
    (void)state;
    assert_time("now", "2026-11-18T11:06:40Z");
    assert_time("+30s", "2026-11-18T11:07:10Z");
    assert_time("+2h", "2026-11-18T13:06:40Z");
    assert_time("+1d", "2026-11-19T11:06:40Z");
    assert_time("2026-11-20T21:30:00.5Z", "2026-11-20T21:30:00Z");
    assert_time("2026-11-20T21:30:00+08:00", "2026-11-20T13:30:00Z");
    assert_time("2026-12-31T23:30:00.000-01:30", "2027-01-01T01:00:00Z");
    assert_true(json_is_null(settings_time("none", 0)));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_null(settings_time(bad[i], 0));
}

/* ---- metrics ---- */

static const char before_text[] = "# HELP x y\n"
                                  "orders{outcome=\"accepted\"} 10\n"
                                  "t_bucket{le=\"0.001\"} 0\n"
                                  "t_bucket{le=\"0.002\"} 10\n"
                                  "t_bucket{le=\"0.004\"} 10\n"
                                  "t_bucket{le=\"+Inf\"} 10\n"
                                  "t_count 10\n";
static const char now_text[] = "orders{outcome=\"accepted\"} 110\r\n"
                               "no number\n\nblank \n"
                               "t_bucket{le=\"0.001\"} 0\n"
                               "t_bucket{le=\"0.002\"} 60\n"
                               "t_bucket{le=\"0.004\"} 109\n"
                               "t_bucket{le=\"+Inf\"} 110\n"
                               "t_count 110";

static void test_metrics(void **state)
{
    const char *before = before_text, *now = now_text;
    (void)state;
    assert_float_equal(metrics_value(now, "t_count"), 110, 0);
    assert_float_equal(metrics_value(now, "t_bucket{le=\"+Inf\"}"), 110, 0);
    assert_float_equal(metrics_value(now, "nothing"), 0, 0);
    assert_float_equal(metrics_value(now, "t"), 0, 0);
    assert_float_equal(metrics_value(NULL, "t_count"), 0, 0);
    assert_float_equal(metrics_growth(before, now, "orders{outcome=\"accepted\"}"), 100, 0);
    assert_float_equal(metrics_growth(now, before, "t_count"), 10, 0); /* a restart */
    assert_float_equal(metrics_quantile(before, now, "t", 0.5), 0.002, 1e-9);
    assert_float_equal(metrics_quantile(before, now, "t", 0.25), 0.0015, 1e-9);
    assert_float_equal(metrics_quantile(before, now, "t", 1), 0.004, 1e-9); /* at least */
    assert_true(metrics_quantile(now, now, "t", 0.5) < 0);
    assert_true(metrics_quantile(NULL, NULL, "t", 0.5) < 0);
}

/* ---- tables ---- */

static void test_table_is_aligned_by_characters(void **state)
{
    static const struct column columns[] = {
        {"bar", "bar", CELL_TEXT}, {"n", "in.n", CELL_NUMBER}, {"text", "text", CELL_TEXT}};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    json_t *rows =
        json_pack("[{s:s, s:{s:i}, s:s}, {s:s, s:{s:i}, s:s}]", "bar", "\u2588\u00b7", "in", "n", 7,
                  "text", "a", "bar", "xxxx", "in", "n", 12345, "text", "b\033[2J\n");
    (void)state;
    table_print(columns, 3, rows, out);
    fclose(out);
    assert_string_equal(text, "bar       n  text\n"
                              "\u2588\u00b7        7  a\n"
                              "xxxx  12345  b?[2J?\n");
    json_decref(rows);
    free(text);
}

static void test_cells(void **state)
{
    static const struct column columns[] = {{"n", "n", CELL_NUMBER},
                                            {"s", "s", CELL_SECONDS},
                                            {"t", "t", CELL_TENTHS},
                                            {"none", "none", CELL_TEXT},
                                            {"empty", "empty", CELL_TEXT}};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    json_t *rows =
        json_pack("[{s:f, s:i, s:f, s:n, s:s}]", "n", 2.6, "s", 60, "t", 1.25, "none", "empty", "");
    (void)state;
    table_print(columns, 5, rows, out);
    fclose(out);
    assert_string_equal(text, "n     s    t  none  empty\n3  60 s  1.2  -     -\n");
    json_decref(rows);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_may_stand_anywhere),
        cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_control_characters_are_overwritten),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_table_is_aligned_by_characters),
        cmocka_unit_test(test_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
