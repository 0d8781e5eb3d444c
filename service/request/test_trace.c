/* Ids of requests: what is taken from headers, what is made, and what a line and an answer get. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "service/request/trace.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00-" TRACE "-00f067aa0ba902b7-01"

static const char *id_of(const char *header)
{
    static char buffer[REQUEST_ID_SIZE];
    static struct trace trace;
    trace_begin(&trace, header, NULL);
    return trace_request_id(&trace, buffer);
}

static void test_a_plain_id_is_taken(void **state)
{
    (void)state;
    static const char longest[] =
        "0123456789012345678901234567890123456789012345678901234567890123";
    assert_string_equal(id_of("a"), "a");
    assert_string_equal(id_of("Ab9-_.:/+@"), "Ab9-_.:/+@");
    assert_int_equal(strlen(longest), REQUEST_ID_SIZE - 1);
    assert_string_equal(id_of(longest), longest);
}

static void test_another_id_is_replaced(void **state)
{
    (void)state;
    static const char *const others[] = {
        NULL,   "",     "a b",
        "a\"b", "a\nb", "\xc3\xa4",
        "a=b",  "a\\",  "01234567890123456789012345678901234567890123456789012345678901234"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *id = id_of(others[i]);
        assert_int_equal(strlen(id), 16);
        assert_int_equal(strspn(id, "0123456789abcdef"), 16);
    }
}

static void test_made_ids_differ(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    static uint64_t seen[COUNT];
    for (int i = 0; i < COUNT; i++) {
        struct trace trace;
        trace_begin(&trace, NULL, NULL);
        assert_int_not_equal(trace.number, 0);
        assert_false(trace_named(&trace));
        seen[i] = trace.number;
        for (int j = 0; j < i; j++)
            assert_true(seen[j] != seen[i]);
    }
}

static void test_a_trace_goes_on_with_a_span_of_its_own(void **state)
{
    (void)state;
    struct trace trace;
    char parent[TRACEPARENT_SIZE];
    trace_begin(&trace, NULL, PARENT);
    assert_true(trace_named(&trace));
    assert_true(trace_parent(&trace, parent));
    assert_int_equal(strlen(parent), TRACEPARENT_SIZE - 1);
    assert_memory_equal(parent, "00-" TRACE "-", 36);
    assert_memory_not_equal(parent + 36, "00f067aa0ba902b7", 16);
    assert_string_equal(parent + 52, "-01");
    trace_begin(&trace, NULL, "00-" TRACE "-00f067aa0ba902b7-ff");
    assert_true(trace_parent(&trace, parent));
    assert_string_equal(parent + 52, "-03"); /* flags that nobody has defined end here */
    trace_begin(&trace, NULL, "cc-" TRACE "-00f067aa0ba902b7-00-more");
    assert_true(trace_parent(&trace, parent));
    assert_memory_equal(parent, "00-" TRACE "-", 36);
}

static void test_a_malformed_traceparent_is_ignored(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "00",
        "00-" TRACE,
        "00-" TRACE "-00f067aa0ba902b7",
        "00-" TRACE "-00f067aa0ba902b7-0",
        "00-" TRACE "-00f067aa0ba902b7-0g",
        "00-" TRACE "-00f067aa0ba902b7-01-more",
        "00-" TRACE "-00f067aa0ba902b7-011",
        "cc-" TRACE "-00f067aa0ba902b7-01.",
        "ff-" TRACE "-00f067aa0ba902b7-01",
        "0-" TRACE "-00f067aa0ba902b7-01x",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00_" TRACE "-00f067aa0ba902b7-01",
        "00-" TRACE "_00f067aa0ba902b7-01",
        "00-" TRACE "-00f067aa0ba902b7_01",
        " " PARENT,
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct trace trace;
        char parent[TRACEPARENT_SIZE];
        trace_begin(&trace, NULL, bad[i]);
        assert_false(trace_parent(&trace, parent));
        assert_false(trace_named(&trace));
    }
}

static void test_lines_name_request_and_trace(void **state)
{
    (void)state;
    struct trace trace;
    trace_begin(&trace, "shop-7", PARENT);
    assert_string_equal(TRACE_LOG(&trace), " request_id=shop-7 trace_id=" TRACE);
    trace_begin(&trace, "shop-7", NULL);
    assert_string_equal(TRACE_LOG(&trace), " request_id=shop-7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plain_id_is_taken),
        cmocka_unit_test(test_another_id_is_replaced),
        cmocka_unit_test(test_made_ids_differ),
        cmocka_unit_test(test_a_trace_goes_on_with_a_span_of_its_own),
        cmocka_unit_test(test_a_malformed_traceparent_is_ignored),
        cmocka_unit_test(test_lines_name_request_and_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
