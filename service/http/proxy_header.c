/* Reads headers of the PROXY protocol (https://www.haproxy.org/download/2.6/doc/proxy-protocol.txt)
 * strictly: what is not as the protocol says is refused at its first byte that is not, so that a
 * client which speaks HTTP at once is not kept waiting for more. */
#include "service/http/proxy_header.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The first `length` bytes are those of `want`, as far as both go. */
static bool begins(const unsigned char *bytes, size_t length, const char *want, size_t want_length)
{
    return memcmp(bytes, want, length < want_length ? length : want_length) == 0;
}

/* ---- version 1: PROXY TCP4 192.0.2.7 198.51.100.1 40000 80, CR, LF ---- */

static const char v1_start[] = "PROXY ";

/* Cuts the next word off, which ends with one space, or with the text. False: it is empty. */
static bool next_word(char **at, char **word_out)
{
    char *space = *at ? strchr(*at, ' ') : NULL;
    *word_out = *at;
    if (space)
        *space = '\0';
    *at = space ? space + 1 : NULL;
    return *word_out && **word_out != '\0';
}

static bool read_port(const char *text, in_port_t *port_out)
{
    enum { DIGITS_MAX = 5 };
    unsigned port = 0;
    size_t digits = strspn(text, "0123456789");
    if (text[digits] != '\0' || digits > DIGITS_MAX || (text[0] == '0' && digits > 1))
        return false;
    for (; *text; text++)
        port = port * 10 + (unsigned)(*text - '0');
    *port_out = htons((uint16_t)port);
    return port <= UINT16_MAX;
}

/* Reads the four words behind TCP4 or TCP6. */
static bool read_addresses(char *words, int family, struct sockaddr_storage *address_out)
{
    char *from, *to, *from_port, *to_port;
    struct sockaddr_in *four = (struct sockaddr_in *)address_out;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address_out;
    struct in6_addr ignored;
    in_port_t port = 0, ignored_port;
    void *in = family == AF_INET ? (void *)&four->sin_addr : (void *)&six->sin6_addr;
    if (!next_word(&words, &from) || !next_word(&words, &to) || !next_word(&words, &from_port) ||
        !next_word(&words, &to_port) || words)
        return false;
    address_out->ss_family = (sa_family_t)family;
    if (inet_pton(family, from, in) != 1 || inet_pton(family, to, &ignored) != 1 ||
        !read_port(from_port, &port) || !read_port(to_port, &ignored_port))
        return false;
    *(family == AF_INET ? &four->sin_port : &six->sin6_port) = port;
    return true;
}

static enum proxy_header_result read_line(char *line, struct proxy_header *header)
{
    char *words = line + sizeof v1_start - 1, *family;
    if (!next_word(&words, &family))
        return PROXY_HEADER_BAD;
    if (strcmp(family, "UNKNOWN") == 0) { /* whatever follows */
        header->source = PROXY_SOURCE_UNKNOWN;
        return PROXY_HEADER_OK;
    }
    header->source = PROXY_SOURCE_ADDRESS;
    bool read = (strcmp(family, "TCP4") == 0 && read_addresses(words, AF_INET, &header->address)) ||
                (strcmp(family, "TCP6") == 0 && read_addresses(words, AF_INET6, &header->address));
    return read ? PROXY_HEADER_OK : PROXY_HEADER_BAD;
}

static enum proxy_header_result read_v1(const unsigned char *bytes, size_t length,
                                        struct proxy_header *header)
{
    char line[PROXY_HEADER_V1_MAX + 1];
    size_t most = length < PROXY_HEADER_V1_MAX ? length : PROXY_HEADER_V1_MAX;
    const unsigned char *end = memchr(bytes, '\r', most);
    size_t used = end ? (size_t)(end - bytes) : most;
    if (memchr(bytes, '\0', used) || memchr(bytes, '\n', used))
        return PROXY_HEADER_BAD;
    if (!end || used + 1 == length)
        return used + 1 < PROXY_HEADER_V1_MAX ? PROXY_HEADER_MORE : PROXY_HEADER_BAD;
    if (end[1] != '\n' || used + 2 > PROXY_HEADER_V1_MAX)
        return PROXY_HEADER_BAD;
    memcpy(line, bytes, used);
    line[used] = '\0';
    header->length = used + 2;
    return read_line(line, header);
}

/* ---- version 2 ---- */

/* The signature, then at these places: version and command, family and protocol, the length of what
 * follows, the addresses; then extensions, each a type, a length, and as many bytes. */
static const char v2_start[] = "\r\n\r\n\0\r\nQUIT\n";

enum {
    V2_SIGNATURE = sizeof v2_start - 1,
    V2_COMMAND = V2_SIGNATURE,
    V2_FAMILY,
    V2_LENGTH,
    V2_HEAD = V2_LENGTH + 2,
    V2_LOCAL = 0x20,
    V2_PROXY = 0x21,
    V2_UNSPECIFIED = 0x00,
    V2_TCP4 = 0x11,
    V2_TCP6 = 0x21,
    V2_UNIX = 0x31,
    V2_EXTENSION = 3, /* bytes before what an extension holds */
};

static_assert(V2_SIGNATURE == 12 && V2_HEAD == 16, "as the protocol says");

static size_t read_length(const unsigned char *bytes)
{
    return (size_t)bytes[0] << 8 | bytes[1];
}

/* How many bytes the addresses of a family take; SIZE_MAX: there is no such family. */
static size_t addresses_size(unsigned char family)
{
    enum { PORT = 2, PATH = 108 };
    switch (family) {
    case V2_UNSPECIFIED:
        return 0;
    case V2_TCP4:
        return 2 * (sizeof(struct in_addr) + PORT);
    case V2_TCP6:
        return 2 * (sizeof(struct in6_addr) + PORT);
    case V2_UNIX:
        return (size_t)2 * PATH;
    default:
        return SIZE_MAX;
    }
}

static bool extensions_good(const unsigned char *at, size_t left)
{
    while (left >= V2_EXTENSION && read_length(at + 1) <= left - V2_EXTENSION) {
        size_t size = V2_EXTENSION + read_length(at + 1);
        at += size;
        left -= size;
    }
    return left == 0;
}

static void read_source(unsigned char family, const unsigned char *at, struct proxy_header *header)
{
    struct sockaddr_in *four = (struct sockaddr_in *)&header->address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&header->address;
    header->source = PROXY_SOURCE_ADDRESS;
    if (family == V2_TCP4) { /* from, to, both ports */
        four->sin_family = AF_INET;
        memcpy(&four->sin_addr, at, sizeof four->sin_addr);
        memcpy(&four->sin_port, at + 2 * sizeof four->sin_addr, sizeof four->sin_port);
    } else if (family == V2_TCP6) {
        six->sin6_family = AF_INET6;
        memcpy(&six->sin6_addr, at, sizeof six->sin6_addr);
        memcpy(&six->sin6_port, at + 2 * sizeof six->sin6_addr, sizeof six->sin6_port);
    } else {
        header->source = PROXY_SOURCE_UNKNOWN;
    }
}

/* What LOCAL says of addresses is to be passed over, whatever it is. Of a family that is not named
 * nobody knows how long the addresses are, so that all is passed over, too. */
static enum proxy_header_result read_v2(const unsigned char *bytes, size_t length,
                                        struct proxy_header *header)
{
    if (length > V2_COMMAND && bytes[V2_COMMAND] != V2_LOCAL && bytes[V2_COMMAND] != V2_PROXY)
        return PROXY_HEADER_BAD;
    bool local = length > V2_COMMAND && bytes[V2_COMMAND] == V2_LOCAL;
    if (length > V2_FAMILY && !local && addresses_size(bytes[V2_FAMILY]) == SIZE_MAX)
        return PROXY_HEADER_BAD;
    if (length < V2_HEAD)
        return PROXY_HEADER_MORE;
    size_t rest = read_length(bytes + V2_LENGTH);
    size_t addresses = local ? 0 : addresses_size(bytes[V2_FAMILY]);
    if (rest < addresses || rest > PROXY_HEADER_MAX - V2_HEAD)
        return PROXY_HEADER_BAD;
    if (length < V2_HEAD + rest)
        return PROXY_HEADER_MORE;
    header->length = V2_HEAD + rest;
    if (local)
        header->source = PROXY_SOURCE_PROXY;
    else
        read_source(bytes[V2_FAMILY], bytes + V2_HEAD, header);
    bool opaque = local || bytes[V2_FAMILY] == V2_UNSPECIFIED;
    return opaque || extensions_good(bytes + V2_HEAD + addresses, rest - addresses)
               ? PROXY_HEADER_OK
               : PROXY_HEADER_BAD;
}

/* ---- both ---- */

enum proxy_header_result proxy_header_read(const void *bytes, size_t length,
                                           struct proxy_header *header_out)
{
    struct proxy_header header = {.length = 0};
    enum proxy_header_result result = PROXY_HEADER_BAD;
    if (length == 0)
        return PROXY_HEADER_MORE;
    if (begins(bytes, length, v1_start, sizeof v1_start - 1))
        result = length < sizeof v1_start - 1 ? PROXY_HEADER_MORE : read_v1(bytes, length, &header);
    else if (begins(bytes, length, v2_start, V2_SIGNATURE))
        result = length < V2_SIGNATURE ? PROXY_HEADER_MORE : read_v2(bytes, length, &header);
    if (result == PROXY_HEADER_OK)
        *header_out = header;
    return result;
}
