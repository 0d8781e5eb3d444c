/* What the kernel says of this very process is what the process knows of itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "service/metrics/process_stats.h"

static struct process_stats read_stats(void)
{
    struct process_stats stats;
    process_stats_read(&stats);
    return stats;
}

static void test_descriptors(void **state)
{
    (void)state;
    enum { OPENED = 20 };
    int files[OPENED];
    struct rlimit limit;
    uint64_t before = read_stats().files;
    assert_true(before > 0);
    for (int i = 0; i < OPENED; i++)
        assert_true((files[i] = open("/dev/null", O_RDONLY)) >= 0);
    assert_int_equal(read_stats().files, before + OPENED);
    for (int i = 0; i < OPENED; i++)
        close(files[i]);
    assert_int_equal(read_stats().files, before);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(read_stats().files_max, limit.rlim_cur);
}

static void test_memory_that_is_touched_is_resident(void **state)
{
    (void)state;
    enum { BYTES = 64 << 20 };
    uint64_t before = read_stats().resident_bytes;
    char *memory = malloc(BYTES);
    assert_non_null(memory);
    memset(memory, 1, BYTES);
    struct process_stats after = read_stats();
    assert_true(after.resident_bytes > before + BYTES / 2);
    assert_true(after.virtual_bytes >= after.resident_bytes);
    assert_int_equal(memory[BYTES - 1], 1);
    free(memory);
}

static void test_times(void **state)
{
    (void)state;
    struct process_stats stats = read_stats();
    double now = (double)time(NULL);
    assert_true(stats.start_s < now + 2);
    assert_true(stats.start_s > now - 3600);
    assert_int_equal(stats.threads, 1);
    double used = process_stats_cpu_s();
    while (process_stats_cpu_s() < used + 0.02)
        assert_true(process_stats_cpu_s() >= used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_memory_that_is_touched_is_resident),
        cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
