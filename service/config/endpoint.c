/* An address to listen on, as options and log write it: host:port. */
#include "service/config/endpoint.h"

#include <stdlib.h>
#include <string.h>

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
