/* An address to listen on, as options and log write it: host:port, or the path of a Unix socket. */
#include "service/config/endpoint.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "service/config/text.h"

/* Copies a part that is neither empty nor too long. */
static bool copy_part(const char *from, size_t length, char *part_out, size_t size)
{
    if (length == 0 || length >= size)
        return false;
    memcpy(part_out, from, length);
    part_out[length] = '\0';
    return true;
}

bool endpoint_parse(const char *text, struct endpoint *endpoint_out)
{
    *endpoint_out = (struct endpoint){.host = ""};
    bool brackets = text[0] == '[';
    const char *host = brackets ? text + 1 : text;
    /* Without brackets the first colon ends the host, so that an IPv6 address needs them: in ::1:80
     * nobody can tell the port from the address. */
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
    struct in6_addr v6;
    struct in_addr v4;
    if (inet_pton(AF_INET, endpoint->host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, endpoint->host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcasecmp(endpoint->host, "localhost") == 0;
}
