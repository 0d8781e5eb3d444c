/* Addresses: endpoints to listen on, networks by prefix, and the address of a client. */
#include "service/config/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/config_file.h"

/* IPv4 addresses are stored as IPv6 ones behind this prefix, so that one comparison serves both,
 * and a client is the same on either kind of socket. */
static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

enum { IPV4_BITS_BEFORE = 96, BITS = 128 };

static bool is_ipv4(const struct address *address)
{
    return memcmp(address->bytes, mapped, sizeof mapped) == 0;
}

/* Copies a part that is neither empty nor too long. */
static bool copy_part(const char *from, size_t length, char *part_out, size_t size)
{
    if (length == 0 || length >= size)
        return false;
    memcpy(part_out, from, length);
    part_out[length] = '\0';
    return true;
}

/* Reads one address, without a port or brackets. */
static bool read_address(const char *text, size_t length, struct address *address_out)
{
    char copy[NETWORKS_TEXT_SIZE];
    if (memchr(text, '\0', length) || !copy_part(text, length, copy, sizeof copy))
        return false;
    memcpy(address_out->bytes, mapped, sizeof mapped);
    return inet_pton(AF_INET, copy, address_out->bytes + sizeof mapped) == 1 ||
           inet_pton(AF_INET6, copy, address_out->bytes) == 1;
}

bool address_parse(const char *text, size_t length, struct address *address_out)
{
    const char *colon = memchr(text, ':', length);
    const char *bracket = memchr(text, ']', length);
    if (length > 0 && text[0] == '[')
        return bracket && read_address(text + 1, (size_t)(bracket - text) - 1, address_out);
    /* A single colon precedes a port; an IPv6 address has two at least. */
    bool port = colon && !memchr(colon + 1, ':', length - (size_t)(colon + 1 - text));
    return read_address(text, port ? (size_t)(colon - text) : length, address_out);
}

bool address_of(const struct sockaddr *from, struct address *address_out)
{
    if (from->sa_family == AF_INET) {
        memcpy(address_out->bytes, mapped, sizeof mapped);
        memcpy(address_out->bytes + sizeof mapped,
               &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    } else if (from->sa_family == AF_INET6) {
        memcpy(address_out->bytes, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr,
               16);
    } else {
        return false;
    }
    return true;
}

static bool same_prefix(const struct address *a, const struct address *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    return memcmp(a->bytes, b->bytes, whole) == 0 &&
           (rest == 0 || (a->bytes[whole] ^ b->bytes[whole]) >> (8 - rest) == 0);
}

/* False when bits behind the prefix are set, see networks_parse. */
static bool ends_in_zeros(const struct network *network)
{
    for (unsigned bit = network->bits; bit < BITS; bit++)
        if (network->address.bytes[bit / 8] & 0x80 >> bit % 8)
            return false;
    return true;
}

static bool read_network(const char *text, size_t length, struct network *network_out)
{
    const char *slash = memchr(text, '/', length);
    size_t head = slash ? (size_t)(slash - text) : length;
    if (!read_address(text, head, &network_out->address))
        return false;
    network_out->bits = BITS;
    if (!slash)
        return true;
    /* An IPv4 prefix length counts behind the prefix of all IPv4 addresses. */
    unsigned first = is_ipv4(&network_out->address) ? IPV4_BITS_BEFORE : 0;
    size_t digits = strspn(slash + 1, "0123456789");
    if (digits == 0 || digits > 3 || digits != length - head - 1)
        return false;
    network_out->bits = first + (unsigned)strtoul(slash + 1, NULL, 10);
    return network_out->bits <= BITS && ends_in_zeros(network_out);
}

bool networks_parse(const char *text, struct networks *networks_out)
{
    networks_out->count = 0;
    if (text[strspn(text, " ")] == '\0') /* an empty list, not one empty network */
        return true;
    for (;;) {
        text += strspn(text, " ");
        size_t length = strcspn(text, ", ");
        if (networks_out->count == NETWORKS_MAX ||
            !read_network(text, length, &networks_out->list[networks_out->count++]))
            return false;
        text += length;
        text += strspn(text, " ");
        if (*text == '\0')
            return true;
        if (*text++ != ',')
            return false;
    }
}

bool networks_hold(const struct networks *networks, const struct address *address)
{
    for (size_t i = 0; i < networks->count; i++)
        if (same_prefix(&networks->list[i].address, address, networks->list[i].bits))
            return true;
    return false;
}

bool address_is_loopback(const struct address *address)
{
    static const struct address own = {.bytes = {[15] = 1}};
    return is_ipv4(address) ? address->bytes[12] == 127
                            : memcmp(address->bytes, own.bytes, sizeof own.bytes) == 0;
}

bool address_forwarded(const struct networks *trusted, const char *list, struct address *address)
{
    const char *end = list + strlen(list);
    /* Reads from the right, where our own proxies have appended: only these entries can be trusted.
     * The client may have sent anything to their left. */
    while (networks_hold(trusted, address)) {
        if (end == list)
            return true;
        const char *comma = end;
        while (comma > list && comma[-1] != ',')
            comma--;
        const char *from = comma + strspn(comma, " \t");
        const char *to = end;
        while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
            to--;
        struct address next; /* keeps `address` when this entry is no address */
        if (from >= to || !address_parse(from, (size_t)(to - from), &next))
            return false;
        *address = next;
        end = comma > list ? comma - 1 : list;
    }
    return false;
}

void address_text(const struct address *address, char text_out[NETWORKS_TEXT_SIZE])
{
    const unsigned char *bytes = address->bytes;
    if (is_ipv4(address))
        snprintf(text_out, NETWORKS_TEXT_SIZE, "%d.%d.%d.%d", bytes[12], bytes[13], bytes[14],
                 bytes[15]);
    else
        snprintf(text_out, NETWORKS_TEXT_SIZE, "%x:%x:%x:%x::", bytes[0] << 8 | bytes[1],
                 bytes[2] << 8 | bytes[3], bytes[4] << 8 | bytes[5], bytes[6] << 8 | bytes[7]);
}

/* ---- addresses to listen on ---- */

bool endpoint_parse(const char *text, struct endpoint *endpoint_out)
{
    *endpoint_out = (struct endpoint){.host = ""};
    bool brackets = text[0] == '[';
    const char *host = brackets ? text + 1 : text;
    /* Without brackets the first colon ends the host, so an IPv6 address needs them: ::1:80 is
     * ambiguous. */
    const char *host_end = strchr(host, brackets ? ']' : ':');
    if (!host_end || !text_visible(text))
        return false;
    const char *colon = brackets ? host_end + 1 : host_end;
    const char *port = colon + 1;
    return *colon == ':' &&
           copy_part(host, (size_t)(host_end - host), endpoint_out->host, ENDPOINT_HOST_SIZE) &&
           copy_part(port, strlen(port), endpoint_out->port, ENDPOINT_PORT_SIZE) &&
           strspn(port, "0123456789") == strlen(port) && strtol(port, NULL, 10) <= 65535;
}

const char *endpoint_path(const char *text)
{
    static const char scheme[] = "unix:";
    const char *path =
        strncmp(text, scheme, sizeof scheme - 1) == 0 ? text + sizeof scheme - 1 : text;
    return path[0] == '/' && strlen(path) < ENDPOINT_PATH_SIZE && text_visible(path) ? path : NULL;
}

bool endpoint_is_loopback(const struct endpoint *endpoint)
{
    struct address address;
    return read_address(endpoint->host, strlen(endpoint->host), &address)
               ? address_is_loopback(&address)
               : strcasecmp(endpoint->host, "localhost") == 0;
}
