/* The simulation in short: its first schedules, and that a seed repeats exactly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND_SIZE = 4096, SEEDS = 700, DAEMON_SEEDS = 300, REPEATED = 7 };

static char program[COMMAND_SIZE / 2]; /* simulate, beside the folder of the tests */

/* The exit status of a run, whose output is shown when it is not 0. */
static int run(const char *arguments, char *output, size_t size)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it has one thread, and the sanitizer leaves no room for its memory */
#endif
    char command[COMMAND_SIZE];
    snprintf(command, sizeof command, "%s %s 2>&1", program, arguments);
    FILE *pipe = popen(command, "r"); /* NOLINT: a command of our own */
    assert_non_null(pipe);
    size_t used = fread(output, 1, size - 1, pipe);
    output[used] = '\0';
    while (fgetc(pipe) != EOF)
        continue;
    return pclose(pipe);
}

static void run_seeds(int seeds, const char *with)
{
    static char output[1 << 18];
    char arguments[64];
    snprintf(arguments, sizeof arguments, "--jobs 1 --seeds %d %s", seeds, with);
    if (run(arguments, output, sizeof output) != 0)
        fail_msg("%s", output);
}

static void schedules_without_faults_keep_every_promise(void **state)
{
    (void)state;
    run_seeds(SEEDS, "--calm");
}

static void the_first_schedules_keep_every_promise(void **state)
{
    (void)state;
    run_seeds(SEEDS, "");
}

static void whole_daemons_without_faults_keep_every_promise(void **state)
{
    (void)state;
    run_seeds(DAEMON_SEEDS, "--daemons --calm");
}

static void whole_daemons_keep_every_promise(void **state)
{
    (void)state;
    run_seeds(DAEMON_SEEDS, "--daemons");
}

static void check_repeats(const char *with)
{
    static char first[1 << 20], second[1 << 20];
    char arguments[64];
    snprintf(arguments, sizeof arguments, "--whole --seed %d %s", REPEATED, with);
    int status = run(arguments, first, sizeof first);
    assert_int_equal(status, 0);
    assert_int_equal(run(arguments, second, sizeof second), 0);
    assert_true(strlen(first) > 1000);
    assert_string_equal(first, second);
}

static void a_seed_repeats_exactly(void **state)
{
    (void)state;
    check_repeats("");
}

static void a_seed_with_whole_daemons_repeats_exactly(void **state)
{
    (void)state;
    check_repeats("--daemons");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_without_faults_keep_every_promise),
        cmocka_unit_test(the_first_schedules_keep_every_promise),
        cmocka_unit_test(whole_daemons_without_faults_keep_every_promise),
        cmocka_unit_test(whole_daemons_keep_every_promise),
        cmocka_unit_test(a_seed_repeats_exactly),
        cmocka_unit_test(a_seed_with_whole_daemons_repeats_exactly),
    };
    (void)argc;
    snprintf(program, sizeof program, "%s/../simulate", dirname(argv[0]));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
