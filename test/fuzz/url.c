/* Fuzzes what says where servers and clients are: URLs, endpoints, networks and addresses.
 *
 * A URL that is read, written anew and read again is the same. What the log shows of it has no
 * password. The drivers take the very URLs that url_parse takes. An address as text is one. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/url.h"
#include "lua/redis.h"
#include "service/config/address.h"
#include "sql/db/db.h"
#include "test/fuzz/fuzz.h"

enum { WRITTEN_MAX = 32768 };

/* ---- URLs ---- */

/* Writes each byte as %XX. */
static char *put(char *at, const char *text)
{
    for (; *text; text++)
        at += sprintf(at, "%%%02X", (unsigned char)*text);
    return at;
}

static char *put_hosts(char *at, const struct url *url)
{
    for (size_t i = 0; i < url->server_count; i++) {
        const char *host = url->servers[i].host;
        at = stpcpy(at, i > 0 ? "," : "");
        at =
            strchr(host, ':') || strchr(host, '%') ? at + sprintf(at, "[%s]", host) : put(at, host);
        if (host[0] != '\0')
            at += sprintf(at, ":%u", url->servers[i].port);
    }
    return at;
}

static char *put_option(char *at, const char *name, const char *value, char *between)
{
    if (value[0] == '\0')
        return at;
    at += sprintf(at, "%c%s=", *between, name);
    *between = '&';
    return put(at, value);
}

static char *put_path(char *at, const struct url *url, const char *scheme)
{
    *at++ = '/';
    if (strcmp(scheme, "mysql") == 0)
        return put(at, url->database);
    if (url->socket[0] != '\0') {
        at = put(at, url->socket + 1);
        return at + sprintf(at, "?db=%u", url->database_number);
    }
    if (url->kind == URL_SENTINEL)
        at = stpcpy(put(at, url->name), "/");
    return at + sprintf(at, "%u", url->database_number);
}

/* Writes a URL from its parts. */
static void write_url(const struct url *url, const char *scheme, char *at)
{
    static const char *const kinds[] = {"", "+sentinel", "+cluster"};
    const bool redis = strcmp(scheme, "redis") == 0;
    char between = '?';
    at += sprintf(at, "%s%s%s://", scheme, url->tls ? "s" : "",
                  redis && url->socket[0] != '\0' ? "+unix" : kinds[url->kind]);
    if (url->user[0] != '\0' || url->password[0] != '\0') {
        at = put(at, url->user);
        *at++ = ':';
        at = put(at, url->password);
        *at++ = '@';
    }
    at = put_path(put_hosts(at, url), url, scheme);
    at = put_option(at, "socket", redis ? "" : url->socket, &between);
    at = put_option(at, "ca", url->ca, &between);
    at = put_option(at, "cert", url->cert, &between);
    at = put_option(at, "key", url->key, &between);
    at = put_option(at, "sentinel_user", url->sentinel_user, &between);
    at = put_option(at, "sentinel_password", url->sentinel_password, &between);
    *at = '\0';
}

/* A host with a colon or a % that is not from brackets came out of %XX, and has no other spelling
 * here. */
static bool can_write(const char *text, const struct url *url)
{
    bool plain = true;
    for (size_t i = 0; i < url->server_count; i++) {
        const char *host = url->servers[i].host;
        plain &= !strchr(host, ':') && !strchr(host, '%') && host[0] != '[';
        if (strchr(host, ']') || (host[0] == '\0' && url->servers[i].port != 3306))
            return false;
    }
    return plain || (strchr(text, '[') && !strchr(text, '%'));
}

static void check_written(const char *text, const struct url *url, const char *scheme)
{
    char written[WRITTEN_MAX], error[URL_ERROR_SIZE];
    struct url again;
    if (!can_write(text, url))
        return;
    write_url(url, scheme, written);
    bool parsed = url_parse(written, scheme, &again, error, sizeof error);
    assert(parsed && memcmp(url, &again, sizeof again) == 0);
}

/* The password, as it is spelt, must not be in what the log shows; unless it is also elsewhere. */
static void check_secret(const char *text, const char *masked)
{
    const char *at = strstr(text, "://");
    const char *end = at ? strrchr(text, '@') : NULL;
    const char *from = end ? strchr(at + 3, ':') : NULL;
    enum { LONG = 6 };
    if (!from || from >= end || end - from - 1 < LONG)
        return;
    char *password = strndup(from + 1, (size_t)(end - from - 1));
    if (!password)
        abort();
    if (strstr(text, password) == from + 1 && !strstr(end, password))
        assert(!strstr(masked, password));
    free(password);
}

static bool opens(const char *text, const char *scheme)
{
    char error[URL_ERROR_SIZE] = "";
    struct redis *redis = NULL;
    struct db *db = NULL;
    if (strcmp(scheme, "redis") == 0)
        redis = redis_open(text, 1, error, sizeof error);
    else
        db = db_open(text, 1, error, sizeof error);
    bool open = redis || db;
    assert(open || error[0] != '\0');
    redis_close(&redis);
    db_close(&db);
    return open;
}

static void check_url(const char *text, const char *scheme)
{
    struct url url;
    char error[URL_ERROR_SIZE] = "", place[URL_PLACE_SIZE], masked[64];
    bool parsed = url_parse(text, scheme, &url, error, sizeof error);
    assert(parsed == (error[0] == '\0') && memchr(error, '\0', sizeof error));
    url_place(text, scheme, place);
    assert(parsed || strcmp(place, "?") == 0);
    url_mask(text, masked, sizeof masked);
    assert(strlen(masked) < sizeof masked);
    if (strcmp(scheme, "zookeeper") == 0) /* its driver takes the hosts as they are written */
        assert(!parsed || !strchr(url_hosts(text), '@'));
    if (strcmp(scheme, "zookeeper") == 0 || strcmp(scheme, "etcd") == 0)
        return;
    assert(opens(text, scheme) == parsed || url.kind == URL_CLUSTER);
    if (!parsed)
        return;
    assert(url.server_count <= URL_SERVERS_MAX);
    for (size_t i = 0; i < url.server_count; i++)
        assert(url.servers[i].port >= 1 && url.servers[i].port <= 65535);
    check_written(text, &url, scheme);
}

/* ---- endpoints, networks, addresses ---- */

static void check_endpoint(const char *text)
{
    struct endpoint endpoint, again;
    const char *path = endpoint_path(text);
    char written[ENDPOINT_HOST_SIZE + ENDPOINT_PORT_SIZE + 4];
    assert(!path || (path >= text && path <= text + strlen(text) &&
                     strlen(path) < ENDPOINT_PATH_SIZE && path[0] == '/'));
    if (!endpoint_parse(text, &endpoint))
        return;
    long port = strtol(endpoint.port, NULL, 10);
    assert(port >= 0 && port <= 65535);
    endpoint_is_loopback(&endpoint);
    snprintf(written, sizeof written, text[0] == '[' ? "[%s]:%s" : "%s:%s", endpoint.host,
             endpoint.port);
    bool parsed = endpoint_parse(written, &again);
    assert(parsed && strcmp(endpoint.host, again.host) == 0);
    assert(strcmp(endpoint.port, again.port) == 0);
}

static void check_address(const char *text)
{
    struct address address, again;
    char shown[NETWORKS_TEXT_SIZE];
    if (!address_parse(text, strlen(text), &address))
        return;
    address_text(&address, shown);
    assert(memchr(shown, '\0', sizeof shown));
    bool parsed = address_parse(shown, strlen(shown), &again);
    bool prefix = strchr(shown, ':') != NULL; /* an IPv6 address is shown as its /64 */
    assert(parsed && memcmp(&address, &again, prefix ? 8 : sizeof again) == 0);
}

static void check_networks(const char *text)
{
    struct networks networks, trusted;
    struct address address;
    if (networks_parse("10.0.0.0/8, fd00::/8", &trusted) &&
        address_parse("10.1.2.3", 8, &address)) {
        bool all = address_forwarded(&trusted, text, &address);
        assert(!all || networks_hold(&trusted, &address));
    }
    if (!networks_parse(text, &networks))
        return;
    assert(networks.count <= NETWORKS_MAX);
    for (size_t i = 0; i < networks.count; i++)
        assert(networks.list[i].bits <= 128 && networks_hold(&networks, &networks.list[i].address));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const schemes[] = {"redis", "mysql", "zookeeper", "etcd"};
    enum { MASKED_MAX = 4096 };
    char masked[MASKED_MAX];
    struct fuzz_input input = {data, size};
    char *text = fuzz_text(&input, '\n', NULL);
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        check_url(text, schemes[i]);
    url_mask(text, masked, sizeof masked);
    check_secret(text, masked);
    check_endpoint(text);
    check_address(text);
    check_networks(text);
    free(text);
    return 0;
}
