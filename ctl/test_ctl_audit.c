/* What an audit counts and compares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/acked.h"
#include "ctl/audit_sale.h"

/* Round 2 of a sale of two segments of ten. */
static json_t *stock_of(int sold_0, int sold_1)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:[{s:i, s:i, s:i}, {s:i, s:i, s:i}]}", "round", 2,
                     "total", 20, "sold", sold_0 + sold_1, "available", 20 - sold_0 - sold_1,
                     "segments", "capacity", 10, "sold", sold_0, "available", 10 - sold_0,
                     "capacity", 10, "sold", sold_1, "available", 10 - sold_1);
}

static void add(struct audit_sale *sale, uint32_t segment, uint32_t qty, int round,
                const char *status)
{
    struct audit_order order = {.id = 7, .segment = segment, .qty = qty};
    audit_sale_add(sale, &order, round, status);
}

static size_t differences(const struct audit_sale *sale)
{
    json_t *list = json_array();
    audit_sale_compare(sale, list);
    size_t count = json_array_size(list);
    json_decref(list);
    return count;
}

static void test_orders_that_hold_units_count(void **state)
{
    struct audit_sale sale;
    (void)state;
    audit_sale_begin(&sale, "demo", stock_of(3, 1));
    add(&sale, 0, 3, 2, "reserved");
    assert_int_equal(differences(&sale), 2); /* the segment's, and the sum */
    add(&sale, 1, 1, 2, "paid");
    add(&sale, 1, 5, 2, "cancelled");
    add(&sale, 1, 5, 2, "expired");
    add(&sale, 1, 5, 1, "paid");
    assert_int_equal(differences(&sale), 0);
    assert_int_equal(sale.orders, 2);
    assert_int_equal(sale.units, 4);
    add(&sale, 9, 1, 2, "paid"); /* the sum, and a segment that is not there */
    assert_int_equal(differences(&sale), 2);
    audit_sale_free(&sale);
}

static void test_order_of_several_segments(void **state)
{
    struct audit_sale sale;
    (void)state;
    audit_sale_begin(&sale, "demo", stock_of(4, 3));
    add(&sale, 0, 7, 2, "reserved");
    assert_int_equal(differences(&sale), 2);
    assert_true(audit_sale_doubts(&sale, &sale.several[0]));
    audit_sale_allocate(&sale, &sale.several[0], NULL);
    assert_int_equal(differences(&sale), 2);
    json_t *parts =
        json_pack("[{s:i, s:i}, {s:i, s:i}]", "segment", 0, "qty", 4, "segment", 1, "qty", 3);
    audit_sale_allocate(&sale, &sale.several[0], parts);
    json_decref(parts);
    assert_int_equal(differences(&sale), 0);
    assert_false(audit_sale_doubts(&sale, &sale.several[0]));
    audit_sale_free(&sale);
}

static void test_stock_that_contradicts_itself(void **state)
{
    struct audit_sale sale;
    json_t *stock = stock_of(0, 0);
    (void)state;
    json_object_set_new(json_array_get(json_object_get(stock, "segments"), 0), "available",
                        json_integer(11));
    audit_sale_begin(&sale, "demo", stock);
    assert_int_equal(differences(&sale), 1);
    json_object_set_new(stock, "total", json_integer(21)); /* not the segments' sum, nor the rest */
    assert_int_equal(differences(&sale), 3);
    audit_sale_free(&sale);
}

static void test_movement(void **state)
{
    json_t *before = stock_of(1, 2), *same = stock_of(1, 2), *other = stock_of(2, 1);
    (void)state;
    assert_false(audit_sale_moved(before, same));
    assert_true(audit_sale_moved(before, other));
    json_object_set_new(same, "round", json_integer(3));
    assert_true(audit_sale_moved(before, same));
    json_decref(before);
    json_decref(same);
    json_decref(other);
}

static bool read_acked(struct acked *acked_out, const char *text)
{
    char path[] = "/tmp/seckillctl-test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    bool good = acked_read(acked_out, path);
    unlink(path);
    return good;
}

static void test_acked(void **state)
{
    struct acked acked;
    uint64_t first = 0;
    (void)state;
    assert_true(read_acked(&acked, "30\n10\n\n20\r\n10\n"));
    assert_int_equal(acked.count, 3);
    assert_int_equal(acked_missing(&acked, &first), 3);
    assert_int_equal(first, 10);
    acked_see(&acked, 10);
    acked_see(&acked, 11);
    acked_see(&acked, 30);
    assert_int_equal(acked_missing(&acked, &first), 1);
    assert_int_equal(first, 20);
    acked_restart(&acked);
    assert_int_equal(acked_missing(&acked, &first), 3);
    acked_free(&acked);
    assert_false(read_acked(&acked, "10\nx\n"));
    assert_true(read_acked(&acked, ""));
    acked_see(&acked, 1);
    assert_int_equal(acked_missing(&acked, &first), 0);
    acked_free(&acked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_that_hold_units_count),
        cmocka_unit_test(test_order_of_several_segments),
        cmocka_unit_test(test_stock_that_contradicts_itself),
        cmocka_unit_test(test_movement),
        cmocka_unit_test(test_acked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
