/* The one reader of redis://, mysql:// and zookeeper:// URLs.
 *
 * why_spans: the text is cut into spans at its delimiters first, and each span is decoded after
 * that, so that an encoded delimiter (%40 for @) never delimits anything. */
#include "base/url.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DATABASE_NUMBER_MAX (1 << 20)

/* Part of the text: [from, to). */
struct span {
    const char *from, *to;
};

/* What stands where, before any of it is decoded. Missing spans have from == NULL. */
struct spans {
    struct span login;  /* user[:password] */
    struct span place;  /* host[:port], or several of them */
    struct span path;   /* behind the slash */
    struct span option; /* behind the question mark */
};

static const char bad_login[] = "the user or the password is too long or badly percent-encoded";
static const char bad_port[] = "the port is not a number from 1 to 65535";

/* ---- cutting ---- */

static const char *find(struct span span, char c)
{
    return span.from ? memchr(span.from, c, (size_t)(span.to - span.from)) : NULL;
}

/* Cuts the span off at the first such character, if there is one, and gives what stands behind. */
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
    for (const char *at = spans.place.to; at > from; at--)
        if (at[-1] == '@') { /* the last one: an unencoded @ may stand in a password */
            spans.login = (struct span){from, at - 1};
            spans.place.from = at;
            break;
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

static const char *read_port(struct span port, struct url *url)
{
    if (port.from && (!read_number(port, 65535, &url->port) || url->port == 0))
        return bad_port;
    return NULL;
}

static const char *read_bracketed(struct span place, struct url *url)
{
    const char *end = find(place, ']');
    if (!end || end == place.from + 1)
        return "the IPv6 address is missing or its bracket is open";
    size_t length = (size_t)(end - place.from) - 1;
    struct span rest = {end + 1, place.to};
    struct span port = cut(&rest, ':');
    if (rest.from != rest.to)
        return "behind the address in brackets stands something that is not a port";
    if (length >= sizeof url->host)
        return "the host is too long";
    memcpy(url->host, place.from + 1, length); /* as it is: a zone has a % of its own */
    return read_port(port, url);
}

/* host[:port]. The host may be missing, for the caller to judge. */
static const char *read_place(struct span place, struct url *url)
{
    if (place.from < place.to && *place.from == '[')
        return read_bracketed(place, url);
    struct span port = cut(&place, ':');
    if (!decode(place, url->host, sizeof url->host))
        return "the host is too long or badly percent-encoded";
    return read_port(port, url);
}

static const char *read_login(struct span login, struct url *url)
{
    struct span password = cut(&login, ':');
    bool good = decode(login, url->user, sizeof url->user) &&
                decode(password, url->password, sizeof url->password);
    return good ? NULL : bad_login;
}

/* ---- what is special about each scheme ---- */

static const char *read_redis(const struct spans *spans, struct url *url)
{
    const char *wrong = read_login(spans->login, url);
    if (!wrong)
        wrong = read_place(spans->place, url);
    if (!wrong && url->host[0] == '\0')
        wrong = "the host is missing";
    if (!wrong && spans->path.from != spans->path.to &&
        !read_number(spans->path, DATABASE_NUMBER_MAX, &url->database_number))
        wrong = "the database is not a number";
    if (!wrong && spans->option.from)
        wrong = "there are no options";
    return wrong;
}

static const char *read_mysql(const struct spans *spans, struct url *url)
{
    static const char option[] = "socket=";
    const size_t head = sizeof option - 1;
    const char *wrong = read_login(spans->login, url);
    if (!wrong)
        wrong = read_place(spans->place, url);
    if (wrong)
        return wrong;
    if (spans->path.from == spans->path.to)
        return "the database is missing";
    if (!decode(spans->path, url->database, sizeof url->database))
        return "the database's name is too long or badly percent-encoded";
    if (spans->option.from) {
        struct span value = {spans->option.from + head, spans->option.to};
        if (strncmp(spans->option.from, option, head) != 0)
            return "the only option is socket";
        if (!decode(value, url->socket, sizeof url->socket))
            return "the socket's path is too long or badly percent-encoded";
    }
    return url->host[0] == '\0' && url->socket[0] != '/' ? "the host is missing" : NULL;
}

/* Checks each host of the list; none of them is kept. */
static const char *read_zookeeper(const struct spans *spans, struct url *url)
{
    const char *wrong = NULL;
    if (spans->login.from)
        return "there are no users";
    if (spans->option.from)
        return "there are no options";
    for (struct span rest = spans->place; !wrong && rest.from;) {
        struct span one = rest;
        rest = cut(&one, ',');
        wrong = read_place(one, url);
        if (!wrong && url->host[0] == '\0')
            wrong = "a host is missing";
    }
    return wrong;
}

/* `read` gives NULL, or what is wrong in words. */
static const struct scheme {
    const char *name, *form;
    unsigned port; /* unless the URL says another */
    const char *(*read)(const struct spans *spans, struct url *url);
} schemes[] = {
    {"redis", "redis://[user:password@]host[:port][/db]", 6379, read_redis},
    {"mysql", "mysql://user[:password]@host[:port]/db[?socket=/path]", 3306, read_mysql},
    {"zookeeper", "zookeeper://host:port[,host:port...][/path]", 2181, read_zookeeper},
};

static bool is_visible(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text >= 0x7f)
            return false;
    return true;
}

static const char *read_all(const struct scheme *scheme, const char *text, struct url *url)
{
    const char *end = url_scheme_end(text);
    size_t length = strlen(scheme->name);
    if (!end || (size_t)(end - text) != length || strncasecmp(text, scheme->name, length) != 0)
        return "it begins with another scheme, or with none";
    if (!is_visible(text))
        return "it has a character that is not visible ASCII";
    const struct spans spans = cut_all(end + 3);
    if (find(spans.path, '@'))
        return "a / in the password is not written as %2F, or an @ in the path not as %40";
    return scheme->read(&spans, url);
}

static const struct scheme *find_scheme(const char *name)
{
    const struct scheme *end = schemes + sizeof schemes / sizeof *schemes;
    const struct scheme *scheme = schemes;
    while (scheme < end && strcmp(scheme->name, name) != 0)
        scheme++;
    assert(scheme < end); /* the callers' own text, never a user's */
    return scheme;
}

bool url_parse(const char *text, const char *scheme, struct url *url_out, char *error_out,
               size_t error_size)
{
    const struct scheme *known = find_scheme(scheme);
    memset(url_out, 0, sizeof *url_out);
    url_out->port = known->port;
    const char *wrong = read_all(known, text, url_out);
    if (wrong)
        snprintf(error_out, error_size, "not of the form %s: %s", known->form, wrong);
    return !wrong;
}

const char *url_form(const char *scheme)
{
    return find_scheme(scheme)->form;
}

const char *url_scheme_end(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *end = text + strspn(text, letters);
    return end > text && strncmp(end, "://", 3) == 0 ? end : NULL;
}

/* ---- URLs in logs and messages ---- */

void url_place(const char *text, const char *scheme, char place_out[URL_PLACE_SIZE])
{
    struct url parts;
    char error[URL_ERROR_SIZE];
    if (!url_parse(text, scheme, &parts, error, sizeof error))
        snprintf(place_out, URL_PLACE_SIZE, "?");
    else if (parts.socket[0] != '\0')
        snprintf(place_out, URL_PLACE_SIZE, "%s", parts.socket);
    else
        snprintf(place_out, URL_PLACE_SIZE, strchr(parts.host, ':') ? "[%s]:%u" : "%s:%u",
                 parts.host, parts.port);
}

/* url_parse is no help here, because the text need not be a URL. */
void url_mask(const char *text, char *masked_out, size_t size)
{
    const char *scheme_end = url_scheme_end(text);
    const char *user = scheme_end ? scheme_end + 3 : text;
    const char *at = strrchr(user, '@');
    const char *colon = at ? memchr(user, ':', (size_t)(at - user)) : NULL;
    /* redis://secret@host: some clients read the lone word as a password, so it may be one. */
    bool lone_secret = at && !colon && strncasecmp(text, "redis", 5) == 0;
    if (colon || lone_secret)
        snprintf(masked_out, size, "%.*s***%s", (int)((colon ? colon + 1 : user) - text), text, at);
    else
        snprintf(masked_out, size, "%s", text);
}
