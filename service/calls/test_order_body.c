/* The body of POST /order: what is taken, what is refused, and that both readers agree on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/test_range.h"
#include "service/calls/calls.h"

#define WORD_64 "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-"

enum { MUTANTS = 100000, MUTANT_MAX = 512 };

typedef bool reader(const char *text, size_t length, struct stock_order *order,
                    const char **detail_out);

static reader *const readers[] = {order_body_parse, order_body_parse_json};

/* Reads a copy of exactly its length, so that reading past its end is found. */
static bool read_body(reader *read, const char *text, size_t length, struct stock_order *order,
                      const char **detail_out)
{
    char *copy = malloc(length + (length == 0));
    assert_non_null(copy);
    memcpy(copy, text, length);
    memset(order, 0x5a, sizeof *order);
    bool good = read(copy, length, order, detail_out);
    free(copy);
    return good;
}

static void accept_body(const char *text, const char *sku, const char *user_id, uint32_t qty)
{
    for (size_t i = 0; i < 2; i++) {
        struct stock_order order;
        const char *detail = "poison";
        if (!read_body(readers[i], text, strlen(text), &order, &detail))
            fail_msg("reader %zu refused %s: %s", i, text, detail);
        assert_null(detail);
        assert_string_equal(order.sku, sku);
        assert_string_equal(order.user_id, user_id);
        assert_int_equal(order.qty, qty);
    }
}

static void refuse_bytes(const char *text, size_t length, const char *about)
{
    for (size_t i = 0; i < 2; i++) {
        struct stock_order order;
        const char *detail = NULL;
        if (read_body(readers[i], text, length, &order, &detail))
            fail_msg("reader %zu accepted %s", i, text);
        assert_non_null(detail);
        if (!strstr(detail, about))
            fail_msg("%s: \"%s\" does not say \"%s\"", text, detail, about);
    }
}

static void refuse_body(const char *text, const char *about)
{
    refuse_bytes(text, strlen(text), about);
}

static void test_plain_bodies_are_taken(void **state)
{
    (void)state;
    accept_body("{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1}", "s", "u", 1);
    accept_body("{\"qty\":1000,\"user_id\":\"u:1\",\"sku\":\"a.b_c-d\"}", "a.b_c-d", "u:1", 1000);
    accept_body(" \t\r\n{ \"sku\" : \"s\" ,\n\"qty\"\t: 20 , \"user_id\" : \"u\" } \r\n", "s", "u",
                20);
    accept_body("{\"sku\":\"" WORD_64 "\",\"user_id\":\"" WORD_64 "\",\"qty\":999}", WORD_64,
                WORD_64, 999);
    accept_body("{\"sku\":\"s\",\"user_id\":\"" WORD_64 WORD_64 "\",\"qty\":1}", "s",
                WORD_64 WORD_64, 1);
    accept_body("{\"sku\":\"s\",\"user_id\":\"" WORD_64 "@\",\"qty\":1}", "s", WORD_64 "@", 1);
    accept_body("{\"sku\":\"s\",\"user_id\":\"o'neil+{1}%2F/,=@b.org\",\"qty\":1}", "s",
                "o'neil+{1}%2F/,=@b.org", 1);
}

static void test_unusual_spellings_of_good_bodies_are_taken(void **state)
{
    (void)state;
    accept_body("{\"s\\u006bu\":\"\\u0073\",\"user_id\":\"u\",\"qty\":1}", "s", "u", 1);
    accept_body("{\"sku\":\"s\",\"user_id\":\"\\\"a\\\\\\/\\u0040b\",\"qty\":1}", "s", "\"a\\/@b",
                1);
    accept_body("{\"sku\":\"s\",\"\\u0075ser_id\":\"u\",\"qty\":7}", "s", "u", 7);
}

static void test_bodies_that_are_not_json_are_refused(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "",
        " ",
        "{",
        "}",
        "{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1",
        "{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1}}",
        "{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1} x",
        "{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1,}",
        "{,\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1}",
        "{\"sku\":\"s\"\"user_id\":\"u\",\"qty\":1}",
        "{\"sku\"\"s\",\"user_id\":\"u\",\"qty\":1}",
        "{'sku':'s','user_id':'u','qty':1}",
        "{sku:\"s\",\"user_id\":\"u\",\"qty\":1}",
        "{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":01}",
        "{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":+1}",
        "{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":0x1}",
        "{\"sku\":\"s,\"user_id\":\"u\",\"qty\":1}",
        "{\"sku\":\"\\q\",\"user_id\":\"u\",\"qty\":1}",
        "{\"sku\":\"\xff\",\"user_id\":\"u\",\"qty\":1}",
        "\xef\xbb\xbf{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1}",
        "{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1}\v",
        "sku=s&user_id=u&qty=1",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        refuse_body(bodies[i], "not valid JSON");
    static const char behind[] = "{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1}"; /* its NUL */
    static const char within[] = "{\"sku\":\"s\0\",\"user_id\":\"u\",\"qty\":1}";
    refuse_bytes(behind, sizeof behind, "not valid JSON");
    refuse_bytes(within, sizeof within - 1, "not valid JSON");
}

static void test_bodies_that_are_no_object_are_refused(void **state)
{
    (void)state;
    refuse_body("[]", "object");
    refuse_body("[{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1}]", "object");
}

static void test_identifiers_outside_their_alphabet_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\"\"",
        "\"a b\"",
        "\"a\\n\"",
        "\"\\u00e9\"",
        "\"\xc3\xa9\"",
        "\"" WORD_64 WORD_64 "x\"",
        "null",
        "1",
        "true",
        "[\"s\"]",
        "\" a\"",
        "\"a \"",
        "\"\\u007f\"",
        "\"\x7f\"",
        "{\"sku\":\"s\"}",
    };
    static const char *const skus[] = {"\"a/b\"", "\"a,b\"", "\"a'b\"",
                                       "\"@\"",   "\"{a}\"", "\"" WORD_64 "x\""};
    char body[MUTANT_MAX];
    for (size_t i = 0; i < sizeof skus / sizeof *skus; i++) {
        snprintf(body, sizeof body, "{\"sku\":%s,\"user_id\":\"u\",\"qty\":1}", skus[i]);
        refuse_body(body, "sku");
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(body, sizeof body, "{\"sku\":%s,\"user_id\":\"u\",\"qty\":1}", texts[i]);
        refuse_body(body, "sku");
        snprintf(body, sizeof body, "{\"sku\":\"s\",\"user_id\":%s,\"qty\":1}", texts[i]);
        refuse_body(body, "user_id");
    }
}

static void test_quantities_out_of_range_are_refused(void **state)
{
    (void)state;
    static const char *const numbers[] = {"0",
                                          "-0",
                                          "-1",
                                          "1001",
                                          "1000.0",
                                          "1.0",
                                          "1.5",
                                          "1e1",
                                          "1E2",
                                          "9999",
                                          "10000",
                                          "4294967297",
                                          "null",
                                          "true",
                                          "\"1\"",
                                          "[1]",
                                          "2147483648",
                                          "9223372036854775807",
                                          "{}",
                                          "-1e1",
                                          "0.0001",
                                          "1e400000",
                                          "9223372036854775808"};
    char body[MUTANT_MAX];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(body, sizeof body, "{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":%s}", numbers[i]);
        refuse_body(body, "qty");
    }
}

static void test_missing_unknown_and_double_fields_are_refused(void **state)
{
    (void)state;
    refuse_body("{}", "sku");
    refuse_body("{\"user_id\":\"u\",\"qty\":1}", "sku");
    refuse_body("{\"sku\":\"s\",\"qty\":1}", "user_id");
    refuse_body("{\"sku\":\"s\",\"user_id\":\"u\"}", "qty");
    refuse_body("{\"SKU\":\"s\",\"user_id\":\"u\",\"qty\":1}", "sku");
    refuse_body("{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1,\"note\":\"n\"}", "other than");
    refuse_body("{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1,\"\":null}", "other than");
    refuse_body("{\"sku\":\"s\",\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1}", "twice");
    refuse_body("{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1,\"qty\":1}", "twice");
    refuse_body("{\"sku\":\"s\",\"user_id\":\"u\",\"user_id\":\"v\",\"qty\":1}", "twice");
}

static void test_deep_nesting_is_refused(void **state)
{
    (void)state;
    char body[4096];
    memset(body, '[', sizeof body);
    refuse_bytes(body, sizeof body, "not valid JSON");
}

/* ---- mutants ---- */

static const char *const seeds[] = {
    "{\"sku\":\"s\",\"user_id\":\"u\",\"qty\":1}",
    "{\"qty\":1000,\"user_id\":\"u:1\",\"sku\":\"a.b_c-d\"}",
    " { \"user_id\" : \"user\" , \"sku\" : \"demo\" , \"qty\" : 12 } ",
    "{\"sku\":\"s\\u0041\",\"user_id\":\"" WORD_64 "\",\"qty\":999}",
};

/* What is put in: bytes that mean something to JSON or to us, and whole fields. */
static const char *const pieces[] = {
    "\"",   "\\", "{",   "}",    ":",       ",",    " ",     "\n",
    "0",    "1",  "-",   ".",    "e",       "\x7f", "\xc3",  "\\u0041",
    "null", "[",  "]",   "10",   "\"qty\"", "\t",   "\"a\"", ",\"qty\":1",
    "sku",  "x",  "999", "1000", "\x01",    "/",    "\xff",  ",\"sku\":\"s\"",
};

static size_t pick(unsigned *random, size_t bound)
{
    return (size_t)rand_r(random) % bound;
}

static size_t mutate(char *body, size_t length, unsigned *random)
{
    size_t at = pick(random, length + 1);
    size_t cut = pick(random, 4) == 0 ? pick(random, 6) : pick(random, 2);
    const char *piece = pick(random, 3) == 0 ? "" : pieces[pick(random, 32)];
    size_t more = strlen(piece);
    cut = cut > length - at ? length - at : cut;
    if (length - cut + more >= MUTANT_MAX)
        return length;
    memmove(body + at + more, body + at + cut, length - at - cut);
    memcpy(body + at, piece, more);
    return length - cut + more;
}

static bool same_verdict(const char *body, size_t length, bool *good_out)
{
    struct stock_order scanned, parsed;
    const char *scan_detail = NULL, *parse_detail = NULL;
    bool by_scan = read_body(order_body_parse, body, length, &scanned, &scan_detail);
    bool by_json = read_body(order_body_parse_json, body, length, &parsed, &parse_detail);
    *good_out = by_json;
    if (by_scan != by_json || !by_scan != (scan_detail != NULL))
        return false;
    if (!by_json)
        return strcmp(scan_detail, parse_detail) == 0;
    return strcmp(scanned.sku, parsed.sku) == 0 && strcmp(scanned.user_id, parsed.user_id) == 0 &&
           scanned.qty == parsed.qty;
}

static void test_both_readers_agree_on_mutants(void **state)
{
    (void)state;
    unsigned random = 20261120;
    size_t accepted = 0;
    for (int i = 0; i < MUTANTS; i++) {
        char body[MUTANT_MAX];
        bool good = false;
        const char *seed = seeds[pick(&random, 4)];
        size_t length = strlen(seed);
        memcpy(body, seed, length);
        for (size_t n = pick(&random, 3) + 1; n > 0; n--)
            length = mutate(body, length, &random);
        if (!same_verdict(body, length, &good))
            fail_msg("mutant %d: %.*s", i, (int)length, body);
        accepted += good;
    }
    assert_int_in_range(accepted, MUTANTS / 50, MUTANTS / 2); /* both verdicts were tried */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_bodies_are_taken),
        cmocka_unit_test(test_unusual_spellings_of_good_bodies_are_taken),
        cmocka_unit_test(test_bodies_that_are_not_json_are_refused),
        cmocka_unit_test(test_bodies_that_are_no_object_are_refused),
        cmocka_unit_test(test_identifiers_outside_their_alphabet_are_refused),
        cmocka_unit_test(test_quantities_out_of_range_are_refused),
        cmocka_unit_test(test_missing_unknown_and_double_fields_are_refused),
        cmocka_unit_test(test_deep_nesting_is_refused),
        cmocka_unit_test(test_both_readers_agree_on_mutants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
