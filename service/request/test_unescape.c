/* Percent-decoding: every byte, what is refused, and slashes that end no name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "service/request/unescape.h"

static void expect(const char *text, const char *wanted)
{
    char copy[64];
    strcpy(copy, text);
    size_t length = unescape(copy);
    if (length != strlen(wanted) || strcmp(copy, wanted) != 0)
        fail_msg("%s became %s", text, copy);
}

static void test_texts(void **state)
{
    (void)state;
    expect("", "");
    expect("/user/u1/orders", "/user/u1/orders");
    expect("a%40b.org", "a@b.org");
    expect("%41%7e%7B+", "A~{+");
    expect("%252F", "%2F");
    expect("/user/a%2Fb%2f/orders", "/user/a\002b\002/orders");
}

/* A decoder that reads %2% or %0x as a byte would make a slash or a NUL of it. */
static void test_what_is_no_escape_is_bad(void **state)
{
    (void)state;
    static const char *const texts[] = {"%", "%4", "%%", "%g1", "%1g", "%2%", "%0x", "%+2", "%-1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char wanted[8];
        snprintf(wanted, sizeof wanted, "\001%s", texts[i] + 1);
        for (char *at = wanted; *at; at++)
            *at = *at == '%' ? '\001' : *at;
        expect(texts[i], wanted);
    }
    expect("a%00b%02c\002d%01", "a\001b\001c\001d\001");
}

static void test_every_byte(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char text[8], back = 0;
        snprintf(text, sizeof text, byte % 2 ? "%%%02x" : "%%%02X", (unsigned)byte);
        assert_int_equal(unescape(text), 1);
        unescape_slashes(text, 1, &back);
        assert_int_equal((unsigned char)back, byte == 0 || byte == 2 ? 1 : byte);
        assert_int_equal(text[0] == '/', 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_what_is_no_escape_is_bad),
        cmocka_unit_test(test_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
