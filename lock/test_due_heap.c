/* The heap of due holds: after any sequence of puts, moves and removals its first is due first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "lock/due_heap.h"

enum { COUNT = 300, STEPS = 20000, TIMES = 500 };

/* The earliest of those that are in, found the slow way. */
static int64_t earliest(const struct due *dues)
{
    int64_t at_ns = INT64_MAX;
    for (int i = 0; i < COUNT; i++)
        if (dues[i].slot != 0 && dues[i].at_ns < at_ns)
            at_ns = dues[i].at_ns;
    return at_ns;
}

static void test_first_is_first(void **state)
{
    (void)state;
    static struct due dues[COUNT];
    struct due_heap heap = {0};
    assert_null(due_first(&heap));
    srandom(1);
    for (int step = 0; step < STEPS; step++) {
        struct due *due = &dues[random() % COUNT];
        if (random() % 3 == 0)
            due_remove(&heap, due);
        else
            assert_true(due_put(&heap, due, random() % TIMES));
        const struct due *first = due_first(&heap);
        assert_true(first ? first->at_ns == earliest(dues) : earliest(dues) == INT64_MAX);
    }
    size_t left = 0;
    for (int64_t last_ns = 0; due_first(&heap); left++) {
        struct due *first = due_first(&heap);
        assert_true(first->at_ns >= last_ns);
        last_ns = first->at_ns;
        due_remove(&heap, first);
        assert_int_equal(first->slot, 0);
    }
    assert_true(left > COUNT / 3);
    due_heap_free(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_is_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
