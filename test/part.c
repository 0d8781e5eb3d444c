/* Lets a unit program run in parts, side by side: with SECKILL_TEST_PART=I/N it runs only every
 * N-th of its tests, from the I-th on (0 is the first), and with SECKILL_TEST_NAME=test_this only
 * the one of that name. Every unit program is linked with this. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int run_group(const char *group, const struct CMUnitTest *tests, size_t count,
                      CMFixtureFunction setup, CMFixtureFunction teardown);

/* The linker leads the calls of cmocka's function here (--wrap), and ours to cmocka. */
run_group __wrap__cmocka_run_group_tests, __real__cmocka_run_group_tests;

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
    int failed = chosen_count == 0
                     ? 0
                     : __real__cmocka_run_group_tests(group, chosen, chosen_count, setup, teardown);
    free(chosen);
    return failed;
}
