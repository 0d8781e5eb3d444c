/* Headers of the PROXY protocol: whole, cut off anywhere, and not as they should be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "service/http/proxy_header.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define TCP4 "\xc0\x00\x02\x07\xc6\x33\x64\x01\x9c\x40\x00\x50"
#define REQUEST "GET /stock/demo HTTP/1.1\r\n\r\n"
/* A text that may hold NULs. */
#define BYTES(text) (text), sizeof(text) - 1

/* The bytes in memory of just that size, so that a sanitizer sees each read beyond it. */
static enum proxy_header_result read_exactly(const char *bytes, size_t length,
                                             struct proxy_header *header)
{
    char *copy = malloc(length > 0 ? length : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    enum proxy_header_result result = proxy_header_read(copy, length, header);
    free(copy);
    return result;
}

/* The header is `length` bytes long, whatever follows, and each part of it wants more. */
static struct proxy_header good(const char *bytes, size_t length)
{
    struct proxy_header header = {.length = 0}, again = {.length = 0};
    char longer[PROXY_HEADER_MAX + sizeof REQUEST];
    for (size_t cut = 0; cut < length; cut++)
        assert_int_equal(read_exactly(bytes, cut, &header), PROXY_HEADER_MORE);
    assert_int_equal(header.length, 0);
    assert_int_equal(read_exactly(bytes, length, &header), PROXY_HEADER_OK);
    assert_int_equal(header.length, length);
    memcpy(longer, bytes, length);
    memcpy(longer + length, REQUEST, sizeof REQUEST);
    assert_int_equal(read_exactly(longer, length + sizeof REQUEST, &again), PROXY_HEADER_OK);
    assert_memory_equal(&header, &again, sizeof header);
    return header;
}

/* No header begins like this, however much follows; and no part of it is a whole header. */
static void bad(const char *bytes, size_t length)
{
    struct proxy_header header;
    assert_int_equal(read_exactly(bytes, length, &header), PROXY_HEADER_BAD);
    for (size_t cut = 0; cut < length; cut++)
        assert_int_not_equal(read_exactly(bytes, cut, &header), PROXY_HEADER_OK);
}

static void assert_address(const struct proxy_header *header, int family, const char *host,
                           unsigned port)
{
    char text[INET6_ADDRSTRLEN];
    const struct sockaddr_in *four = (const struct sockaddr_in *)&header->address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&header->address;
    assert_int_equal(header->source, PROXY_SOURCE_ADDRESS);
    assert_int_equal(header->address.ss_family, family);
    inet_ntop(family, family == AF_INET ? (const void *)&four->sin_addr : &six->sin6_addr, text,
              sizeof text);
    assert_string_equal(text, host);
    assert_int_equal(ntohs(family == AF_INET ? four->sin_port : six->sin6_port), port);
}

static void version_1_names_the_client(void **state)
{
    (void)state;
    struct proxy_header header = good(BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 40000 80\r\n"));
    assert_address(&header, AF_INET, "192.0.2.7", 40000);
    header = good(BYTES("PROXY TCP6 2001:db8::7 2001:db8::1 1 65535\r\n"));
    assert_address(&header, AF_INET6, "2001:db8::7", 1);
    assert_int_equal(good(BYTES("PROXY UNKNOWN\r\n")).source, PROXY_SOURCE_UNKNOWN);
    header = good(BYTES("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n"));
    assert_int_equal(header.source, PROXY_SOURCE_UNKNOWN);
}

static void version_1_is_read_strictly(void **state)
{
    (void)state;
    bad(BYTES("GET / HTTP/1.1\r\n"));
    bad(BYTES("PROXX"));
    bad(BYTES("proxy TCP4 192.0.2.7 198.51.100.1 40000 80\r\n"));
    bad(BYTES("PROXY  TCP4 192.0.2.7 198.51.100.1 40000 80\r\n"));
    bad(BYTES("PROXY TCP4 192.0.2.7  198.51.100.1 40000 80\r\n"));
    bad(BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 40000 80 \r\n"));
    bad(BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 40000 80 1\r\n"));
    bad(BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 40000\r\n"));
    bad(BYTES("PROXY TCP4\r\n"));
    bad(BYTES("PROXY \r\n"));
    bad(BYTES("PROXY TCP4 192.0.2.256 198.51.100.1 40000 80\r\n"));
    bad(BYTES("PROXY TCP4 2001:db8::7 2001:db8::1 40000 80\r\n"));
    bad(BYTES("PROXY TCP6 192.0.2.7 198.51.100.1 40000 80\r\n"));
    bad(BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 65536 80\r\n"));
    bad(BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 080 80\r\n"));
    bad(BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 +80 80\r\n"));
    bad(BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 40000 80\n"));
    bad(BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 40000 80\rX"));
    bad(BYTES("PROXY TCP4 192.0.2.7\0 198.51.100.1 40000 80\r\n"));
    bad(BYTES("PROXY UDP4 192.0.2.7 198.51.100.1 40000 80\r\n"));
}

static void version_1_is_107_bytes_at_most(void **state)
{
    (void)state;
    char line[PROXY_HEADER_V1_MAX + 2];
    memset(line, 'x', sizeof line);
    memcpy(line, BYTES("PROXY UNKNOWN "));
    memcpy(line + PROXY_HEADER_V1_MAX - 2, "\r\n", 2);
    assert_int_equal(good(line, PROXY_HEADER_V1_MAX).source, PROXY_SOURCE_UNKNOWN);
    memcpy(line + PROXY_HEADER_V1_MAX - 2, "x\r\n", 3);
    bad(line, PROXY_HEADER_V1_MAX + 1);
    memset(line + PROXY_HEADER_V1_MAX - 2, 'x', 3);
    bad(line, PROXY_HEADER_V1_MAX);
}

static void version_2_names_the_client(void **state)
{
    (void)state;
    struct proxy_header header = good(BYTES(SIGNATURE "\x21\x11\x00\x0c" TCP4));
    assert_address(&header, AF_INET, "192.0.2.7", 40000);
    header = good(BYTES(SIGNATURE "\x21\x11\x00\x14" TCP4 "\x04\x00\x05hello"));
    assert_address(&header, AF_INET, "192.0.2.7", 40000);
    header = good(BYTES(SIGNATURE "\x21\x21\x00\x24\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07"
                                  "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x01\x00\x50"));
    assert_address(&header, AF_INET6, "2001:db8::7", 1);
}

static void version_2_may_name_nobody(void **state)
{
    (void)state;
    assert_int_equal(good(BYTES(SIGNATURE "\x20\x00\x00\x00")).source, PROXY_SOURCE_PROXY);
    assert_int_equal(good(BYTES(SIGNATURE "\x20\x11\x00\x0c" TCP4)).source, PROXY_SOURCE_PROXY);
    assert_int_equal(good(BYTES(SIGNATURE "\x20\x7f\x00\x02zz")).source, PROXY_SOURCE_PROXY);
    assert_int_equal(good(BYTES(SIGNATURE "\x21\x00\x00\x02zz")).source, PROXY_SOURCE_UNKNOWN);
    char of_unix[16 + 216] = SIGNATURE "\x21\x31\x00\xd8/run/x.sock";
    assert_int_equal(good(of_unix, sizeof of_unix).source, PROXY_SOURCE_UNKNOWN);
}

static void version_2_is_read_strictly(void **state)
{
    (void)state;
    bad(BYTES("\r\n\r\n\0\r\nQUIX"));
    bad(BYTES("\r\n\r\nGET / HTTP/1.1"));
    bad(BYTES(SIGNATURE "\x11"));
    bad(BYTES(SIGNATURE "\x22"));
    bad(BYTES(SIGNATURE "\x21\x12"));
    bad(BYTES(SIGNATURE "\x21\x41"));
    bad(BYTES(SIGNATURE "\x21\x11\x00\x0b"));
    bad(BYTES(SIGNATURE "\x21\x21\x00\x0c"));
    bad(BYTES(SIGNATURE "\x21\x31\x00\x0c"));
    bad(BYTES(SIGNATURE "\x21\x11\x03\xf1")); /* a byte more than the bound */
    bad(BYTES(SIGNATURE "\x20\x00\xff\xff"));
}

static void extensions_fill_what_is_left(void **state)
{
    (void)state;
    bad(BYTES(SIGNATURE "\x21\x11\x00\x0d" TCP4 "\x04"));
    bad(BYTES(SIGNATURE "\x21\x11\x00\x0f" TCP4 "\x04\x00\x01"));
    bad(BYTES(SIGNATURE "\x21\x11\x00\x13" TCP4 "\x04\x00\x05hell"));
    bad(BYTES(SIGNATURE "\x21\x11\x00\x13" TCP4 "\x04\xff\xffhell"));
    good(BYTES(SIGNATURE "\x21\x11\x00\x12" TCP4 "\x04\x00\x00\x05\x00\x00"));
}

static void longest_header_is_taken(void **state)
{
    (void)state;
    char bytes[PROXY_HEADER_MAX] = SIGNATURE "\x20\x00\x03\xf0";
    assert_int_equal(good(bytes, sizeof bytes).source, PROXY_SOURCE_PROXY);
}

/* Whatever the bytes are: a result stands once it is not MORE, and a header ends within them. */
static void mutated_headers_are_good_or_refused_for_good(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
    } seeds[] = {
        {BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 40000 80\r\n" REQUEST)},
        {BYTES("PROXY TCP6 2001:db8::7 2001:db8::1 1 65535\r\n" REQUEST)},
        {BYTES("PROXY UNKNOWN\r\n" REQUEST)},
        {BYTES(SIGNATURE "\x21\x11\x00\x14" TCP4 "\x04\x00\x05hello" REQUEST)},
        {BYTES(SIGNATURE "\x20\x00\x00\x00" REQUEST)},
    };
    enum { ROUNDS = 20000, SIZE = 128 };
    unsigned random = 1;
    for (int round = 0; round < ROUNDS; round++) {
        char bytes[SIZE];
        size_t seed = (unsigned)rand_r(&random) % (sizeof seeds / sizeof *seeds);
        size_t length = seeds[seed].length;
        memcpy(bytes, seeds[seed].bytes, length);
        for (int i = rand_r(&random) % 3; i >= 0; i--)
            bytes[(unsigned)rand_r(&random) % length] = (char)rand_r(&random);
        enum proxy_header_result whole = PROXY_HEADER_MORE;
        struct proxy_header header = {.length = 0}, first = header;
        for (size_t cut = 1; cut <= length; cut++) {
            enum proxy_header_result result = read_exactly(bytes, cut, &header);
            if (whole != PROXY_HEADER_MORE) {
                assert_int_equal(result, whole);
                assert_memory_equal(&header, &first, sizeof header);
                continue;
            }
            whole = result;
            first = header;
            assert_true(result != PROXY_HEADER_OK || header.length == cut);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1_names_the_client),
        cmocka_unit_test(version_1_is_read_strictly),
        cmocka_unit_test(version_1_is_107_bytes_at_most),
        cmocka_unit_test(version_2_names_the_client),
        cmocka_unit_test(version_2_may_name_nobody),
        cmocka_unit_test(version_2_is_read_strictly),
        cmocka_unit_test(extensions_fill_what_is_left),
        cmocka_unit_test(longest_header_is_taken),
        cmocka_unit_test(mutated_headers_are_good_or_refused_for_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
