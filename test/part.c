/* Lets a unit program run in parts, side by side: with SECKILL_TEST_PART=I/N it runs only every
 * N-th of its tests, from the I-th on (0 is the first), and with SECKILL_TEST_NAME=test_this only
 * the one of that name. With TEST_COSTS it says what each has cost. Every unit program is linked
 * with this. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef int run_group(const char *group, const struct CMUnitTest *tests, size_t count,
                      CMFixtureFunction setup, CMFixtureFunction teardown);

/* The linker leads the calls of cmocka's function here (--wrap), and ours to cmocka. */
run_group __wrap__cmocka_run_group_tests, __real__cmocka_run_group_tests;

static struct CMUnitTest *measured; /* the tests that run, as they were */
static size_t begun;                /* how many of them have */

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* Runs the next test; when that has failed, it does not come back. Names are wrong from a setup on
 * that fails: then nothing calls this. */
static void measure(void **state)
{
    struct rusage before[2], after[2];
    const struct CMUnitTest *test = &measured[begun++];
    getrusage(RUSAGE_SELF, &before[0]);
    getrusage(RUSAGE_CHILDREN, &before[1]);
    test->test_func(state);
    getrusage(RUSAGE_SELF, &after[0]);
    getrusage(RUSAGE_CHILDREN, &after[1]);
    double user = 0, system = 0;
    for (int i = 0; i < 2; i++) {
        user += seconds(after[i].ru_utime) - seconds(before[i].ru_utime);
        system += seconds(after[i].ru_stime) - seconds(before[i].ru_stime);
    }
    fprintf(stderr, "[     COST ] %s %.3f %.3f\n", test->name, user, system);
}

static void measure_all(struct CMUnitTest *chosen, size_t count)
{
    measured = malloc(count * sizeof *measured);
    begun = 0;
    if (!measured)
        abort();
    memcpy(measured, chosen, count * sizeof *measured);
    for (size_t i = 0; i < count; i++)
        chosen[i].test_func = measure;
}

int __wrap__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown)
{
    const char *text = getenv("SECKILL_TEST_PART"), *name = getenv("SECKILL_TEST_NAME");
    unsigned part = 0, parts = 1;
    if (text && (sscanf(text, "%u/%u", &part, &parts) != 2 || part >= parts)) {
        fprintf(stderr, "SECKILL_TEST_PART=%s is not I/N\n", text);
        abort();
    }
    struct CMUnitTest *chosen = calloc(count, sizeof *chosen);
    size_t chosen_count = 0;
    for (size_t i = part; chosen && i < count; i += parts)
        if (!name || strcmp(tests[i].name, name) == 0)
            chosen[chosen_count++] = tests[i];
    if (chosen_count > 0 && getenv("TEST_COSTS"))
        measure_all(chosen, chosen_count);
    int failed = chosen_count == 0
                     ? 0
                     : __real__cmocka_run_group_tests(group, chosen, chosen_count, setup, teardown);
    free(measured);
    measured = NULL;
    free(chosen);
    return failed;
}
