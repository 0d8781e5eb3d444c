/* An audit counts and compares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/commands/audit_read.h"

/* Round 2 of a sale of two segments of ten, limited, each of which Redis has as `state` says. */
static json_t *head_of(int sold_0, int sold_1, const char *state)
{
    return json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:b, s:[{s:i, s:i, s:i, s:s, s:s, s:{s:i}}, {s:i, s:i, s:i, s:s,"
        " s:s, s:{s:i}}]}",
        "round", 2, "total", 20, "sold", sold_0 + sold_1, "segment_count", 2, "per_user_limit", 5,
        "counting", 0, "segments", "segment", 0, "capacity", 10, "sold", sold_0, "fence", "7",
        "state", state, "redis", "available", 9, "segment", 1, "capacity", 10, "sold", sold_1,
        "fence", "8", "state", "ok", "redis", "available", 10 - sold_1);
}

static void add_users(struct audit_sale *sale, int units, const char *weighed, int above)
{
    json_t *page = json_pack("{s:[], s:{s:i, s:s, s:i}}", "segments", "users", "units", units,
                             "weighed", weighed, "above", above);
    assert_int_equal(audit_sale_add_page(sale, page), EX_OK);
    json_decref(page);
}

/* Orders that hold units, weighed as their users are counted. */
static void add_orders(struct audit_sale *sale, int round, int units)
{
    json_t *sums =
        json_pack("{s:i, s:{s:i, s:i, s:i}, s:i, s:s}", "round", round, "states", "reserved", 1,
                  "paid", 1, "expired", 3, "units", units, "weighed", "12345678901");
    audit_sale_add_orders(sale, sums);
    json_decref(sums);
}

static void add_fault(struct audit_sale *sale, const char *name)
{
    json_t *sums = json_pack("{s:i, s:i}", "round", 2, name, 2);
    audit_sale_add_orders(sale, sums);
    json_decref(sums);
}

/* The differences as one text, one a line. */
static const char *told(const struct audit_sale *sale, size_t *awaiting_out)
{
    static char text[2000];
    size_t i;
    const json_t *line;
    json_t *list = json_array(), *awaiting = json_array();
    audit_sale_compare(sale, list, awaiting);
    text[0] = '\0';
    json_array_foreach(list, i, line)
    {
        strcat(strcat(text, json_string_value(line)), "\n");
    }
    *awaiting_out = json_array_size(awaiting);
    json_decref(list);
    json_decref(awaiting);
    return text;
}

static void begin_with(struct audit_sale *sale, json_t *head)
{
    *sale = (struct audit_sale){.sku = "demo"};
    assert_int_equal(audit_sale_add_page(sale, head), EX_OK);
    json_decref(head);
}

static void begin(struct audit_sale *sale, const char *state)
{
    begin_with(sale, head_of(3, 1, state));
    add_users(sale, 4, "12345678901", 0);
}

static void test_what_agrees(void **state)
{
    struct audit_sale sale;
    size_t awaiting;
    (void)state;
    begin(&sale, "ok");
    add_orders(&sale, 2, 4);
    assert_string_equal(told(&sale, &awaiting), "");
    assert_int_equal(awaiting, 0);
    assert_int_equal(sale.expired, 3);
    assert_false(sale.round_changed);
    add_orders(&sale, 3, 0);
    assert_true(sale.round_changed);
    json_decref(sale.head);
}

static void test_orders_and_segments_that_differ(void **state)
{
    struct audit_sale sale;
    size_t awaiting;
    (void)state;
    begin(&sale, "ok");
    add_orders(&sale, 2, 3);
    assert_non_null(strstr(told(&sale, &awaiting), "demo: 4 sold, 3 in orders\n"));
    json_decref(sale.head);
    begin_with(&sale, head_of(3, 11, "ok"));
    assert_non_null(strstr(told(&sale, &awaiting), "segment 1: oversold, 11 of 10\n"));
    json_object_set_new(sale.head, "total", json_integer(21));
    assert_non_null(strstr(told(&sale, &awaiting), "21 units in all, 20 in its segments\n"));
    json_array_remove(json_object_get(sale.head, "segments"), 0);
    assert_non_null(strstr(told(&sale, &awaiting), "segment 0 is missing\n"));
    assert_non_null(strstr(told(&sale, &awaiting), "2 segments in the sale, 1 rows\n"));
    json_decref(sale.head);
}

static void test_redis(void **state)
{
    struct audit_sale sale;
    size_t awaiting;
    (void)state;
    begin(&sale, "mismatch");
    add_orders(&sale, 2, 4);
    assert_string_equal(told(&sale, &awaiting),
                        "demo: segment 0: Redis has 9 left, the ledger 7\n");
    json_decref(sale.head);
    begin(&sale, "dirty");
    add_orders(&sale, 2, 4);
    assert_string_equal(told(&sale, &awaiting), "");
    assert_int_equal(awaiting, 1);
    json_decref(sale.head);
}

static void test_users(void **state)
{
    struct audit_sale sale;
    size_t awaiting;
    (void)state;
    begin(&sale, "ok");
    add_orders(&sale, 2, 4);
    add_users(&sale, 0, "1", 2);
    assert_string_equal(told(&sale, &awaiting),
                        "demo: the users whose units are counted are not the users of the orders\n"
                        "demo: 2 users have more than their limit\n");
    add_users(&sale, 1, "0", 0);
    assert_non_null(strstr(told(&sale, &awaiting), "5 units are counted for users, 4 in orders\n"));
    json_object_set_new(sale.head, "counting", json_true());
    assert_string_equal(told(&sale, &awaiting), "");
    json_decref(sale.head);
}

static void test_faults_of_orders(void **state)
{
    static const char *const names[] = {"unkeyed", "unlisted", "unmatched"};
    static const char *const texts[] = {"key does not lead", "would never expire",
                                        "whose payments contradict"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct audit_sale sale;
        size_t awaiting;
        begin(&sale, "ok");
        add_orders(&sale, 2, 4);
        add_fault(&sale, names[i]);
        add_fault(&sale, names[i]);
        add_orders(&sale, 2, 0); /* the last page has none */
        assert_non_null(strstr(told(&sale, &awaiting), texts[i]));
        assert_non_null(strstr(told(&sale, &awaiting), "demo: 4 "));
        json_decref(sale.head);
    }
}

static void test_payments_are_added_up(void **state)
{
    struct audit_sale sale;
    size_t awaiting;
    (void)state;
    begin(&sale, "ok");
    add_orders(&sale, 2, 1); /* as an older daemon, without payments */
    for (int i = 0; i < 2; i++) {
        json_t *sums =
            json_pack("{s:i, s:{s:i}, s:i, s:i, s:{s:i, s:i, s:i, s:i}}", "round", 2, "states",
                      "refunded", 4, "units", i == 0 ? 3 : 0, "unreturned", 3, "payments", "taken",
                      5, "refund_due", 6, "refunded", 7, "failed", 8);
        audit_sale_add_orders(&sale, sums);
        json_decref(sums);
    }
    assert_string_equal(told(&sale, &awaiting), "");
    assert_int_equal(sale.refunded, 8);
    assert_int_equal(sale.unreturned, 6);
    assert_int_equal(sale.taken, 10);
    assert_int_equal(sale.refund_due, 12);
    assert_int_equal(sale.paid_back, 14);
    assert_int_equal(sale.failed, 16);
    json_decref(sale.head);
}

static void test_movement(void **state)
{
    json_t *before = head_of(1, 2, "ok"), *same = head_of(1, 2, "dirty");
    json_t *other = head_of(2, 1, "ok");
    (void)state;
    assert_false(audit_sale_moved(before, same));
    assert_true(audit_sale_moved(before, other));
    json_object_set_new(json_array_get(json_object_get(same, "segments"), 1), "fence",
                        json_string("9")); /* sold and returned: as many as before */
    assert_true(audit_sale_moved(before, same));
    json_decref(before);
    json_decref(same);
    json_decref(other);
}

static void test_page_of_another_form(void **state)
{
    struct audit_sale sale = {.sku = "demo"};
    json_t *page = json_pack("{s:i}", "segments", 2);
    (void)state;
    assert_int_equal(audit_sale_add_page(&sale, page), EX_PROTOCOL);
    assert_null(sale.head);
    json_decref(page);
}

static bool read_acked(struct audit *audit, const char *text)
{
    char path[] = "/tmp/seckillctl-test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    json_object_clear(audit->acked);
    json_object_clear(audit->repeated);
    bool good = audit_read_acked(audit, path);
    unlink(path);
    return good;
}

static void test_acked(void **state)
{
    static struct context context;
    struct audit audit = {.context = &context,
                          .acked = json_object(),
                          .repeated = json_object(),
                          .missing = json_object(),
                          .differences = json_array(),
                          .awaiting = json_array()};
    (void)state;
    assert_true(read_acked(&audit, "30\n10\n\n020\r\n10\n10\n"));
    assert_int_equal(json_object_size(audit.acked), 3);
    json_object_update(audit.missing, audit.acked);
    json_object_del(audit.missing, "10");
    json_object_del(audit.missing, "30");
    audit_compare(&audit);
    assert_int_equal(json_array_size(audit.differences), 2);
    assert_string_equal(json_string_value(json_array_get(audit.differences, 0)),
                        "1 orders that clients saw accepted are missing, such as 20");
    assert_string_equal(json_string_value(json_array_get(audit.differences, 1)),
                        "1 orders were accepted more than once, as clients saw it, such as 10");
    json_object_clear(audit.missing);
    assert_true(read_acked(&audit, "30\n10\n"));
    audit_compare(&audit);
    assert_int_equal(json_array_size(audit.differences), 0);
    assert_false(read_acked(&audit, "10\nx\n"));
    assert_true(read_acked(&audit, ""));
    assert_int_equal(json_object_size(audit.acked), 0);
    json_decref(audit.acked);
    json_decref(audit.repeated);
    json_decref(audit.missing);
    json_decref(audit.differences);
    json_decref(audit.awaiting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_agrees),
        cmocka_unit_test(test_orders_and_segments_that_differ),
        cmocka_unit_test(test_redis),
        cmocka_unit_test(test_users),
        cmocka_unit_test(test_faults_of_orders),
        cmocka_unit_test(test_payments_are_added_up),
        cmocka_unit_test(test_movement),
        cmocka_unit_test(test_page_of_another_form),
        cmocka_unit_test(test_acked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
