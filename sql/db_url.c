/* The parts of a database's URL, decoded. */
#include "sql/db_url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool url_decode(const char *from, size_t length, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned value = (unsigned char)from[i];
        if (from[i] == '%') {
            bool hex = i + 2 < length && isxdigit((unsigned char)from[i + 1]) &&
                       isxdigit((unsigned char)from[i + 2]);
            if (!hex || sscanf(from + i + 1, "%2x", &value) != 1)
                return false;
            i += 2;
        }
        if (value == 0 || used + 1 >= DB_URL_FIELD_MAX)
            return false;
        out[used++] = (char)value;
    }
    out[used] = '\0';
    return true;
}

/* user[:password] */
static bool parse_credentials(const char *from, size_t length, struct db_url *url_out)
{
    const char *colon = memchr(from, ':', length);
    size_t user = colon ? (size_t)(colon - from) : length;
    return url_decode(from, user, url_out->user) &&
           (!colon || url_decode(colon + 1, length - user - 1, url_out->password));
}

/* host[:port] */
static bool parse_host(const char *from, size_t length, struct db_url *url_out)
{
    const char *colon = memchr(from, ':', length);
    size_t host = colon ? (size_t)(colon - from) : length;
    url_out->port = 3306;
    if (colon) {
        char *end = NULL;
        unsigned long port = strtoul(colon + 1, &end, 10);
        if (end != from + length || port == 0 || port > 65535)
            return false;
        url_out->port = (unsigned)port;
    }
    return url_decode(from, host, url_out->host);
}

/* The end of the credentials; a path of a socket may have such a sign as well. */
static const char *last_at(const char *from, size_t length)
{
    while (length > 0 && from[length - 1] != '@')
        length--;
    return length > 0 ? from + length - 1 : NULL;
}

bool db_url_parse(const char *url, struct db_url *url_out)
{
    static const char scheme[] = "mysql://";
    static const char option[] = "?socket=";
    memset(url_out, 0, sizeof *url_out);
    if (strncasecmp(url, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *place = url + sizeof scheme - 1;
    const char *at = last_at(place, strcspn(place, "?"));
    const char *host = at ? at + 1 : place;
    const char *slash = strchr(host, '/');
    if (!slash || (at && !parse_credentials(place, (size_t)(at - place), url_out)))
        return false;
    const char *query = strchr(slash, '?');
    size_t name = query ? (size_t)(query - slash - 1) : strlen(slash + 1);
    if (query && (strncmp(query, option, sizeof option - 1) != 0 ||
                  !url_decode(query + sizeof option - 1, strlen(query) - sizeof option + 1,
                              url_out->socket)))
        return false;
    return parse_host(host, (size_t)(slash - host), url_out) && name > 0 &&
           url_decode(slash + 1, name, url_out->database);
}
