/* Reads all redis://, mysql://, zookeeper:// and etcd:// URLs.
 *
 * why_spans: the text is cut into spans at its delimiters first, and each span is decoded after
 * that, so that an encoded delimiter (%40 for @) never delimits anything. */
#define _GNU_SOURCE /* memrchr, strcasestr */
#include "base/url.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/config_file.h"

/* A part of the text: [from, to). */
struct span {
    const char *from, *to;
};

/* The parts of a URL, not yet decoded. Missing ones have from == NULL. */
struct spans {
    struct span login;  /* user[:password] */
    struct span place;  /* host[:port], or several of them */
    struct span path;   /* behind the slash */
    struct span option; /* behind the question mark */
};

/* ---- cutting ---- */

static const char *find(struct span span, char c)
{
    return span.from ? memchr(span.from, c, (size_t)(span.to - span.from)) : NULL;
}

/* Cuts the span off at the first such character, if it has one, and returns the part after it. */
static struct span cut(struct span *span, char c)
{
    struct span behind = {NULL, NULL};
    const char *at = find(*span, c);
    if (at) {
        behind = (struct span){at + 1, span->to};
        span->to = at;
    }
    return behind;
}

static struct spans cut_all(const char *from)
{
    struct spans spans = {.place = {from, from + strlen(from)}};
    spans.option = cut(&spans.place, '?');
    spans.path = cut(&spans.place, '/');
    /* Takes the last one: an unencoded @ may stand in a password. */
    const char *at = memrchr(from, '@', (size_t)(spans.place.to - from));
    if (at) {
        spans.login = (struct span){from, at};
        spans.place.from = at + 1;
    }
    return spans;
}

/* ---- decoding ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Copies the percent-encoded span decoded; false when it is malformed or too long. */
static bool decode(struct span span, char *out, size_t size)
{
    size_t used = 0;
    for (const char *at = span.from; at < span.to; at++) {
        char c = *at;
        if (c == '%') {
            if (span.to - at < 3 || hex_digit(at[1]) < 0 || hex_digit(at[2]) < 0)
                return false;
            c = (char)(hex_digit(at[1]) * 16 + hex_digit(at[2]));
            at += 2;
        }
        if (c == '\0' || used + 1 >= size)
            return false;
        out[used++] = c;
    }
    out[used] = '\0';
    return true;
}

static bool read_number(struct span span, unsigned max, unsigned *number_out)
{
    unsigned number = 0;
    if (span.from == span.to)
        return false;
    for (const char *at = span.from; at < span.to; at++) {
        if (*at < '0' || *at > '9')
            return false;
        number = number * 10 + (unsigned)(*at - '0');
        if (number > max) /* checked at each digit: it cannot overflow */
            return false;
    }
    *number_out = number;
    return true;
}

static const char *read_port(struct span port, struct url_server *server)
{
    if (port.from && (!read_number(port, 65535, &server->port) || server->port == 0))
        return "the port is not a number from 1 to 65535";
    return NULL;
}

/* Names and IPv4 addresses have letters, digits and - . _ only. Without this check a list with
 * another separator than the comma would be looked up as one name. */
static bool is_host(const char *host)
{
    for (; *host; host++)
        if (!isalnum((unsigned char)*host) && !strchr("-._", *host))
            return false;
    return true;
}

/* An address may be followed by % and its zone. */
static bool is_ipv6(const char *host)
{
    struct in6_addr address;
    char text[INET6_ADDRSTRLEN];
    size_t length = strcspn(host, "%");
    if (length >= sizeof text)
        return false;
    memcpy(text, host, length);
    text[length] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1 &&
           (host[length] == '\0' || (host[length + 1] != '\0' && is_host(host + length + 1)));
}

static const char *read_bracketed(struct span place, struct url_server *server)
{
    const char *end = find(place, ']');
    if (!end || end == place.from + 1)
        return "the IPv6 address is missing or its bracket is open";
    size_t length = (size_t)(end - place.from) - 1;
    struct span rest = {end + 1, place.to};
    struct span port = cut(&rest, ':');
    if (rest.from != rest.to)
        return "behind the address in brackets stands something that is not a port";
    if (length >= sizeof server->host)
        return "the host is too long";
    memcpy(server->host, place.from + 1, length); /* as it is: a zone has a % of its own */
    if (!is_ipv6(server->host))
        return "what stands in brackets is not an IPv6 address";
    return read_port(port, server);
}

/* Reads host[:port]. The host may be missing: the caller judges that. */
static const char *read_place(struct span place, struct url_server *server)
{
    if (place.from < place.to && *place.from == '[')
        return read_bracketed(place, server);
    struct span port = cut(&place, ':');
    if (!decode(place, server->host, sizeof server->host))
        return "the host is too long or badly percent-encoded";
    if (!is_host(server->host))
        return "a host has other characters than letters, digits and - . _";
    return read_port(port, server);
}

/* Reads up to `max` places with commas between. */
static const char *read_places(struct span places, unsigned port, size_t max, struct url *url)
{
    const char *wrong = NULL;
    for (struct span rest = places; !wrong && rest.from;) {
        struct span one = rest;
        struct url_server *server = &url->servers[url->server_count];
        if (url->server_count == max)
            return max == 1 ? "there is more than one host" : "there are more than 16 hosts";
        rest = cut(&one, ',');
        server->port = port;
        wrong = read_place(one, server);
        if (!wrong && server->host[0] == '\0')
            wrong = max == 1 ? "the host is missing" : "a host is missing";
        url->server_count++;
    }
    return wrong;
}

static const char *read_login(struct span login, struct url *url)
{
    struct span password = cut(&login, ':');
    bool good = decode(login, url->user, sizeof url->user) &&
                decode(password, url->password, sizeof url->password);
    return good ? NULL : "the user or the password is too long or badly percent-encoded";
}

static const char *read_servers(const struct spans *spans, unsigned port, size_t max,
                                struct url *url)
{
    const char *wrong = read_login(spans->login, url);
    return wrong ? wrong : read_places(spans->place, port, max, url);
}

/* ---- options ---- */

/* An option that the URL may have: a text, or if `number` is set, the database's number. */
struct option {
    const char *name;
    char *text;
    size_t size;
    unsigned *number;
};

static const char *read_option(struct span option, const struct option *known, size_t count)
{
    struct span value = cut(&option, '=');
    const size_t length = (size_t)(option.to - option.from);
    for (size_t i = 0; i < count; i++) {
        if (strlen(known[i].name) != length || strncmp(known[i].name, option.from, length) != 0)
            continue;
        if (known[i].number)
            return read_number(value, URL_DATABASE_MAX, known[i].number)
                       ? NULL
                       : "the database is not a number";
        if (known[i].text[0] != '\0')
            return "an option stands there twice";
        if (!value.from || value.from == value.to)
            return "an option has no value";
        return decode(value, known[i].text, known[i].size)
                   ? NULL
                   : "an option's value is too long or badly percent-encoded";
    }
    return "such a URL has no option of that name";
}

static const char *read_options(struct span options, const struct option *known, size_t count)
{
    const char *wrong = NULL;
    for (struct span rest = options; !wrong && rest.from;) {
        struct span one = rest;
        rest = cut(&one, '&');
        wrong = read_option(one, known, count);
    }
    return wrong;
}

/* ---- what is special about each scheme ---- */

/* Reads the options of TLS, if the URL has it, and those for sentinels. */
static const char *read_tls_options(struct span options, struct url *url)
{
    const struct option known[] = {
        {"ca", url->ca, sizeof url->ca, NULL},
        {"cert", url->cert, sizeof url->cert, NULL},
        {"key", url->key, sizeof url->key, NULL},
        {"sentinel_user", url->sentinel_user, sizeof url->sentinel_user, NULL},
        {"sentinel_password", url->sentinel_password, sizeof url->sentinel_password, NULL},
    };
    const size_t tls_count = 3, all = sizeof known / sizeof *known;
    size_t from = url->tls ? 0 : tls_count;
    size_t to = url->kind == URL_SENTINEL ? all : tls_count;
    const char *wrong = read_options(options, known + from, to - from);
    if (!wrong && (url->cert[0] == '\0') != (url->key[0] == '\0'))
        wrong = "of cert and key there is only one";
    if (!wrong && url->sentinel_user[0] != '\0' && url->sentinel_password[0] == '\0')
        wrong = "there is a sentinel_user without a sentinel_password";
    return wrong;
}

/* Reads the database's number, and before it the name of Sentinel's master. */
static const char *read_redis_path(struct span path, struct url *url)
{
    struct span database = path;
    if (url->kind == URL_SENTINEL) {
        database = cut(&path, '/');
        if (path.from == path.to)
            return "the master's name is missing";
        if (!decode(path, url->name, sizeof url->name))
            return "the master's name is too long or badly percent-encoded";
    }
    bool good = database.from == database.to ||
                read_number(database, URL_DATABASE_MAX, &url->database_number);
    if (url->kind == URL_CLUSTER && (!good || url->database_number != 0))
        return "a cluster has no database but 0";
    return good ? NULL : "the database is not a number";
}

static const char *read_redis(const struct spans *spans, unsigned port, struct url *url)
{
    size_t servers_max = url->kind == URL_SINGLE ? 1 : URL_SERVERS_MAX;
    const char *wrong = read_servers(spans, port, servers_max, url);
    if (!wrong)
        wrong = read_redis_path(spans->path, url);
    return wrong ? wrong : read_tls_options(spans->option, url);
}

static const char *read_unix(const struct spans *spans, unsigned port, struct url *url)
{
    const struct option database = {"db", NULL, 0, &url->database_number};
    const char *wrong = read_login(spans->login, url);
    (void)port;
    if (wrong)
        return wrong;
    if (spans->place.from != spans->place.to)
        return "there is a host";
    if (spans->path.from == spans->path.to)
        return "the socket's path is missing";
    url->socket[0] = '/';
    if (!decode(spans->path, url->socket + 1, URL_SOCKET_SIZE - 1))
        return "the socket's path is too long or badly percent-encoded";
    return read_options(spans->option, &database, 1);
}

/* A socket needs no TLS, and TLS needs a host whose certificate it is. */
static const char *read_mysql_options(struct span options, struct url *url)
{
    const struct option socket = {"socket", url->socket, sizeof url->socket, NULL};
    return url->tls ? read_tls_options(options, url) : read_options(options, &socket, 1);
}

static const char *read_mysql(const struct spans *spans, unsigned port, struct url *url)
{
    const bool hostless = spans->place.from == spans->place.to;
    const char *wrong =
        hostless ? read_login(spans->login, url) : read_servers(spans, port, URL_SERVERS_MAX, url);
    if (wrong)
        return wrong;
    if (spans->path.from == spans->path.to)
        return "the database is missing";
    if (!decode(spans->path, url->database, sizeof url->database))
        return "the database's name is too long or badly percent-encoded";
    wrong = read_mysql_options(spans->option, url);
    if (!wrong && hostless && url->socket[0] != '/')
        wrong = "the host is missing";
    if (!wrong && url->server_count > 1 && url->socket[0] != '\0')
        wrong = "a socket leads to one server, and there are several hosts";
    if (!wrong && hostless) {
        url->server_count = 1;
        url->servers[0].port = port;
    }
    return wrong;
}

static const char *check_login(const struct url *url)
{
    return (url->user[0] == '\0') != (url->password[0] == '\0')
               ? "of user and password there is only one"
               : NULL;
}

/* Checks each host of any number: ZooKeeper's client library takes the text itself. */
static const char *read_zookeeper(const struct spans *spans, unsigned port, struct url *url)
{
    const char *wrong = read_login(spans->login, url);
    if (url->tls)
        return "ZooKeeper's client library has no TLS: let a tunnel such as stunnel add it";
    if (!wrong)
        wrong = check_login(url);
    if (!wrong && strchr(url->user, ':'))
        wrong = "there is a colon in the user";
    if (spans->option.from)
        return "there are no options";
    for (struct span rest = spans->place; !wrong && rest.from;) {
        struct span one = rest;
        rest = cut(&one, ',');
        url->server_count = 0; /* only the last one is kept */
        wrong = read_places(one, port, 1, url);
    }
    return wrong;
}

static const char *read_etcd(const struct spans *spans, unsigned port, struct url *url)
{
    const char *wrong = read_servers(spans, port, URL_SERVERS_MAX, url);
    if (wrong)
        return wrong;
    if (spans->path.from != spans->path.to)
        return "there is a path";
    wrong = check_login(url);
    return wrong ? wrong : read_tls_options(spans->option, url);
}

#define HOSTS "host[:port][,host[:port]...]"

/* `read` returns NULL, or in words what is wrong. A family's first scheme has its plainest form. */
static const struct scheme {
    const char *family, *name, *form;
    unsigned port; /* unless the URL says another */
    bool tls;
    enum url_kind kind;
    const char *(*read)(const struct spans *spans, unsigned port, struct url *url);
} schemes[] = {
    {"redis", "redis", "redis://[user:password@]host[:port][/db]", 6379, false, URL_SINGLE,
     read_redis},
    {"redis", "rediss", "rediss://[user:password@]host[:port][/db][?ca=/path]", 6379, true,
     URL_SINGLE, read_redis},
    {"redis", "redis+unix", "redis+unix://[user:password@]/path[?db=number]", 0, false, URL_SINGLE,
     read_unix},
    {"redis", "redis+sentinel", "redis+sentinel://[user:password@]" HOSTS "/name[/db]", 26379,
     false, URL_SENTINEL, read_redis},
    {"redis", "rediss+sentinel", "rediss+sentinel://[user:password@]" HOSTS "/name[/db]", 26379,
     true, URL_SENTINEL, read_redis},
    {"redis", "redis+cluster", "redis+cluster://[user:password@]" HOSTS, 6379, false, URL_CLUSTER,
     read_redis},
    {"redis", "rediss+cluster", "rediss+cluster://[user:password@]" HOSTS, 6379, true, URL_CLUSTER,
     read_redis},
    {"mysql", "mysql", "mysql://user[:password]@" HOSTS "/db[?socket=/path]", 3306, false,
     URL_SINGLE, read_mysql},
    {"mysql", "mysqls", "mysqls://user[:password]@" HOSTS "/db[?ca=/path]", 3306, true, URL_SINGLE,
     read_mysql},
    {"zookeeper", "zookeeper", "zookeeper://[user:password@]" HOSTS "[/path]", 2181, false,
     URL_SINGLE, read_zookeeper},
    {"zookeeper", "zookeepers", "zookeeper://[user:password@]" HOSTS "[/path]", 2181, true,
     URL_SINGLE, read_zookeeper},
    {"etcd", "etcd", "etcd://[user:password@]" HOSTS, 2379, false, URL_SINGLE, read_etcd},
    {"etcd", "etcds", "etcds://[user:password@]" HOSTS "[?ca=/path]", 2379, true, URL_SINGLE,
     read_etcd},
};

static const struct scheme *const schemes_end = schemes + sizeof schemes / sizeof *schemes;

/* Returns the scheme of the text; NULL: it has no known scheme. */
static const struct scheme *scheme_of(const char *text)
{
    const char *end = url_scheme_end(text);
    size_t length = end ? (size_t)(end - text) : 0;
    for (const struct scheme *i = schemes; i < schemes_end; i++)
        if (strlen(i->name) == length && strncasecmp(text, i->name, length) == 0)
            return i;
    return NULL;
}

static const struct scheme *find_family(const char *family)
{
    const struct scheme *scheme = schemes;
    while (scheme < schemes_end && strcmp(scheme->family, family) != 0)
        scheme++;
    assert(scheme < schemes_end); /* the callers' own text, never a user's */
    return scheme;
}

static const char *read_all(const struct scheme *scheme, const char *text, struct url *url)
{
    if (!text_visible(text))
        return "it has a character that is not visible ASCII";
    if (strstr(url_scheme_end(text) + 3, "://"))
        return "there is a second URL in it; where several may stand, blanks are between them";
    const struct spans spans = cut_all(url_scheme_end(text) + 3);
    if (find(spans.path, '@'))
        return "a / in the password is not written as %2F, or an @ in the path not as %40";
    url->tls = scheme->tls;
    url->kind = scheme->kind;
    return scheme->read(&spans, scheme->port, url);
}

bool url_parse(const char *text, const char *scheme, struct url *url_out, char *error_out,
               size_t error_size)
{
    const struct scheme *family = find_family(scheme), *known = scheme_of(text);
    const char *wrong = "it begins with another scheme, or with none";
    memset(url_out, 0, sizeof *url_out);
    if (known && strcmp(known->family, scheme) == 0) {
        family = known;
        wrong = read_all(known, text, url_out);
    }
    if (wrong)
        snprintf(error_out, error_size, "not of the form %s: %s", family->form, wrong);
    return !wrong;
}

const char *url_form(const char *scheme)
{
    return find_family(scheme)->form;
}

const char *url_scheme(const char *text)
{
    const struct scheme *scheme = scheme_of(text);
    return scheme ? scheme->family : NULL;
}

const char *url_scheme_end(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+";
    const char *end = text + strspn(text, letters);
    return end > text && strncmp(end, "://", 3) == 0 ? end : NULL;
}

const char *url_hosts(const char *text)
{
    const char *end = url_scheme_end(text);
    return end ? cut_all(end + 3).place.from : text;
}

/* ---- URLs in logs and messages ---- */

void url_server_place(const char *host, unsigned port, char place_out[URL_PLACE_SIZE])
{
    snprintf(place_out, URL_PLACE_SIZE, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

void url_place(const char *text, const char *scheme, char place_out[URL_PLACE_SIZE])
{
    struct url parts;
    char error[URL_ERROR_SIZE], one[URL_PLACE_SIZE];
    size_t used = 0;
    if (!url_parse(text, scheme, &parts, error, sizeof error))
        snprintf(place_out, URL_PLACE_SIZE, "?");
    else if (parts.socket[0] != '\0')
        snprintf(place_out, URL_PLACE_SIZE, "%s", parts.socket);
    else
        for (size_t i = 0; i < parts.server_count && used < URL_PLACE_SIZE; i++) {
            url_server_place(parts.servers[i].host, parts.servers[i].port, one);
            used += (size_t)snprintf(place_out + used, URL_PLACE_SIZE - used, "%s%s",
                                     i > 0 ? "," : "", one);
        }
}

/* Finds the first password option from `text` on: returns the end of its value, and in `from_out`
 * its beginning. */
static const char *option_secret(const char *text, const char **from_out)
{
    static const char option[] = "password=";
    const char *at = strcasestr(text, option);
    *from_out = at ? at + sizeof option - 1 : NULL;
    return at ? *from_out + strcspn(*from_out, "& ") : NULL;
}

/* Finds the login's password, or a word that may be one. */
static const char *login_secret(const char *text, const char **from_out)
{
    const char *scheme_end = url_scheme_end(text), *option;
    const char *user = scheme_end ? scheme_end + 3 : text;
    const char *end = strrchr(user, '@');
    const char *colon = end ? memchr(user, ':', (size_t)(end - user)) : NULL;
    /* redis://secret@host: some clients read the lone word as a password, so it may be one. */
    bool lone_secret = end && !colon && strncasecmp(text, "redis", 5) == 0;
    if (!colon && !lone_secret)
        return NULL;
    *from_out = colon ? colon + 1 : user;
    /* The @ may stand in an option's password, which must be masked to its end. */
    for (const char *to = option_secret(user, &option); to && option < end;
         to = option_secret(to, &option))
        end = to > end ? to : end;
    return end;
}

/* Does without url_parse, because the text need not be a URL. */
void url_mask(const char *text, char *masked_out, size_t size)
{
    const char *from = NULL, *end = login_secret(text, &from);
    size_t used = 0;
    if (!end)
        end = option_secret(text, &from);
    masked_out[0] = '\0';
    while (end && used < size) {
        used +=
            (size_t)snprintf(masked_out + used, size - used, "%.*s***", (int)(from - text), text);
        text = end;
        end = option_secret(text, &from);
    }
    if (used < size)
        snprintf(masked_out + used, size - used, "%s", text);
}
