/* The payments of a provider's file are compared with those of the service. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/commands/payment_file.h"

static struct context context;

static void read_bytes(struct payment_file *file, const char *bytes, size_t length)
{
    char path[] = "/tmp/seckillctl-test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    close(fd);
    assert_true(payment_file_read(file, &context, path));
    unlink(path);
}

static void read_text(struct payment_file *file, const char *text)
{
    read_bytes(file, text, strlen(text));
}

static bool compare(struct payment_file *file, const char *ref, const char *order, bool due)
{
    json_t *payment =
        json_pack("{s:s, s:s, s:s}", "payment_ref", ref, "order_id", order, "state", "taken");
    bool good = payment_file_compare(file, payment, due);
    json_decref(payment);
    return good;
}

/* The sentences, one a line. */
static const char *told(const json_t *list)
{
    static char text[4000];
    size_t i;
    const json_t *line;
    text[0] = '\0';
    json_array_foreach(list, i, line)
    {
        strcat(strcat(text, json_string_value(line)), "\n");
    }
    return text;
}

static void test_what_agrees(void **state)
{
    struct payment_file file;
    (void)state;
    read_text(&file, "payment_ref,order_id\npi_1,7\npi_2,8\n");
    for (int i = 0; i < 2; i++) { /* each comparison begins anew */
        payment_file_begin(&file);
        assert_true(compare(&file, "pi_2", "8", true));
        assert_true(compare(&file, "pi_1", "7", false));
        payment_file_end(&file);
        assert_int_equal(file.agreed, 2);
        assert_string_equal(told(file.differences), "");
    }
    assert_string_equal(told(file.faults), "");
    payment_file_free(&file);
}

static void test_what_differs(void **state)
{
    struct payment_file file;
    (void)state;
    read_text(&file, "pi_1,7\npi_2,8\n\npi_3,9\n");
    payment_file_begin(&file);
    compare(&file, "pi_1", "7", true);
    compare(&file, "pi_2", "80", true);
    compare(&file, "pi_4", "7", true);
    compare(&file, "pi_5", "7", false); /* of a sale that is not audited */
    payment_file_end(&file);
    assert_int_equal(file.agreed, 1);
    assert_string_equal(told(file.differences),
                        "pi_2 of order 80, which is taken, is not in the file\n"
                        "pi_4 of order 7, which is taken, is not in the file\n"
                        "line 2: the service does not know pi_2 of order 8\n"
                        "line 4: the service does not know pi_3 of order 9\n");
    payment_file_free(&file);
}

static void test_payment_of_several_orders(void **state)
{
    struct payment_file file;
    (void)state;
    read_text(&file, "pi_1,7\npi_1,8\npi_1,9\n");
    assert_string_equal(told(file.faults), "");
    payment_file_begin(&file);
    compare(&file, "pi_1", "8", true);
    compare(&file, "pi_1", "7", true);
    compare(&file, "pi_1", "6", true);
    payment_file_end(&file);
    assert_int_equal(file.agreed, 2);
    assert_string_equal(told(file.differences),
                        "pi_1 of order 6, which is taken, is not in the file\n"
                        "line 3: the service does not know pi_1 of order 9\n");
    payment_file_free(&file);
}

static void test_payments_that_are_there_twice(void **state)
{
    struct payment_file file;
    (void)state;
    read_text(&file, "pi_1,7\npi_1,07\npi_1,8\n\"pi_1\",7\n");
    assert_string_equal(told(file.faults), "line 2: pi_1 of order 7 is in line 1 already\n"
                                           "line 4: pi_1 of order 7 is in line 1 already\n");
    payment_file_free(&file);
}

static void test_forms_of_files(void **state)
{
    static const char *const good[] = {
        "\"a\"\"b\",\"7\"\r\n",
        "\xef\xbb\xbf\"a\"\"b\",7\n",
        "\r\n\"a\"\"b\",07",
        "\xef\xbb\xbfpayment_ref,order_id\r\n\"a\"\"b\",7\r\n\r\n \t\n",
        "order_id,payment_ref\n7,\"a\"\"b\"\n",
        "\xef\xbb\xbf\"created\",\"order_id\",amount,payment_ref,note\r\n"
        "2026-11-29,7,\"1,299.00\",\"a\"\"b\",\"two\r\nlines, \"\"quoted\"\"\"\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct payment_file file;
        read_text(&file, good[i]);
        payment_file_begin(&file);
        compare(&file, "a\"b", "7", true);
        payment_file_end(&file);
        assert_string_equal(told(file.faults), "");
        assert_string_equal(told(file.differences), "");
        payment_file_free(&file);
    }
}

static void refuse_bytes(const char *bytes, size_t length, size_t taken)
{
    char path[] = "/tmp/seckillctl-test.XXXXXX";
    struct payment_file file;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    close(fd);
    assert_false(payment_file_read(&file, &context, path));
    assert_int_equal(json_object_size(file.lines), taken);
    payment_file_free(&file);
    unlink(path);
}

/* A file with one wrong line is no file of payments, whatever its other lines are. */
static void test_lines_that_are_no_payments(void **state)
{
    static const char *const bad[] = {"pi_1",
                                      ",7",
                                      "pi_1,",
                                      "pi_1,0",
                                      "pi_1,-7",
                                      "pi_1,x",
                                      "pi_1,7,",
                                      "pi 1,7",
                                      "\"pi_1,7",
                                      "pi_1,\"7",
                                      "\xc3\xa9,7",
                                      "pi_1;7",
                                      " pi_1,7",
                                      "pi_1,7 ",
                                      "pi_1,2.50361722030785E+017",
                                      "order_id,ref\n7,pi_1",
                                      "payment_ref,order_id,note\npi_1,7",
                                      "payment_ref,order_id\npayment_ref,order_id",
                                      "pi_1,99999999999999999999"};
    char text[400];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int length = snprintf(text, sizeof text, "%s\npi_2,8\n", bad[i]);
        refuse_bytes(text, (size_t)length, 0);
    }
    int length = snprintf(text, sizeof text, "pi_1,7\npi_2,8%0200d\n", 0);
    memset(text + 13, ',', 200);
    refuse_bytes(text, (size_t)length, 1);
    refuse_bytes("pi_1,7\0\npi_2,8\n", 15, 0);
}

static void test_longest_ref(void **state)
{
    struct payment_file file;
    char text[400] = "\"", ref[129] = "";
    (void)state;
    for (int i = 0; i < 128; i++) {
        strcat(text, "\"\"");
        strcat(ref, "\"");
    }
    strcat(text, "\",\"9223372036854775807\"\r\n");
    read_text(&file, text);
    payment_file_begin(&file);
    assert_true(compare(&file, ref, "9223372036854775807", true));
    assert_int_equal(file.agreed, 1);
    payment_file_free(&file);
}

static void test_many_lines(void **state)
{
    enum { COUNT = 5000 };
    struct payment_file file;
    char *text = malloc(COUNT * 20), *at = text, ref[20], order[20];
    (void)state;
    for (int i = 1; i <= COUNT; i++)
        at += sprintf(at, "pi_%d,%d\n", i, i);
    read_text(&file, text);
    payment_file_begin(&file);
    for (int i = COUNT; i > 0; i--) {
        sprintf(ref, "pi_%d", i);
        sprintf(order, "%d", i);
        compare(&file, ref, order, true);
    }
    payment_file_end(&file);
    assert_int_equal(file.agreed, COUNT);
    assert_string_equal(told(file.differences), "");
    payment_file_free(&file);
    free(text);
}

static void test_orders_of_other_pods(void **state)
{
    struct payment_file file;
    (void)state;
    context.config.pod_count = 2;
    context.pods_begin = 1;
    context.options.values[OPTION_POD] = "1";
    read_text(&file, "pi_1,7\npi_2,263\n");
    assert_int_equal(json_object_size(file.lines), 1);
    assert_non_null(json_object_get(file.lines, "pi_2 of order 263"));
    payment_file_free(&file);
    context = (struct context){.argc = 0};
}

static void test_what_cannot_be_compared(void **state)
{
    struct payment_file file;
    (void)state;
    assert_false(payment_file_read(&file, &context, "/nowhere/payments.csv"));
    payment_file_free(&file);
    assert_false(payment_file_read(&file, &context, "/tmp")); /* a folder opens, and has no bytes */
    payment_file_free(&file);
    read_text(&file, "");
    assert_false(compare(&file, "", "7", true));
    assert_false(compare(&file, "pi_1", "x", true));
    payment_file_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_agrees),
        cmocka_unit_test(test_what_differs),
        cmocka_unit_test(test_payment_of_several_orders),
        cmocka_unit_test(test_payments_that_are_there_twice),
        cmocka_unit_test(test_forms_of_files),
        cmocka_unit_test(test_lines_that_are_no_payments),
        cmocka_unit_test(test_longest_ref),
        cmocka_unit_test(test_many_lines),
        cmocka_unit_test(test_orders_of_other_pods),
        cmocka_unit_test(test_what_cannot_be_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
