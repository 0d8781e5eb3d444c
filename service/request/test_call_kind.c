/* The bounds of calls: that of most, and that of those which may wait for locks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "service/request/request.h"
#include "service/config/options.h"

static void test_locks_give_more_time_and_never_less(void **state)
{
    static const struct {
        unsigned deadline_ms, lease_ms;
        int usual_ms, locks_ms;
    } rows[] = {
        {2000, 3000, 2000, 4000}, /* the defaults */
        {2000, 1000, 2000, 2000}, /* just as long */
        {20000, 500, 20000, 20000}, {50, 60000, 50, 60025}, {60000, 60000, 60000, 90000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config config = {.deadline_ms = rows[i].deadline_ms, .lease_ms = rows[i].lease_ms};
        assert_int_equal(call_bound_ms(&config, false), rows[i].usual_ms);
        assert_int_equal(call_bound_ms(&config, true), rows[i].locks_ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locks_give_more_time_and_never_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
