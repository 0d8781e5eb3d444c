/* The head of a request: where the request ends, who sends it, and from where. */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "service/http/http.h"

enum {
    FORWARDED_MAX = 8, /* X-Forwarded-For headers read of one request */
    QUERY_PARAMETERS_MAX = 50,
    RECORD_BYTES = 64,      /* libmicrohttpd's memory per header, cookie and parameter */
    REPLY_HEAD_BYTES = 1024 /* reserved for the head of an answer */
};

static_assert((int)STOCK_ADDRESS_SIZE == (int)NETWORKS_TEXT_SIZE, "an order holds an address");

/* libmicrohttpd 0.9.75 stores a record per parameter before it calls anybody, and silently closes
 * the connection when the records fill its memory. Cutting the query before it is parsed keeps the
 * connection; the request is then refused. */
bool head_cut_query(const char *uri)
{
    char *query = strchr((char *)(uintptr_t)uri, '?');
    unsigned count = 1;
    if (!query)
        return false;
    for (const char *at = query; (at = strchr(at, '&')); at++)
        count++;
    if (count <= QUERY_PARAMETERS_MAX)
        return false;
    query[1] = '\0';
    return true;
}

/* Where a character may stand, as bits. */
enum { VALUE = 1, TOKEN = 2 | VALUE, AUTHORITY = 4 };

/* RFC 9110, 5.5 and 5.6.2. AUTHORITY allows only host names of RFC 3986, 3.2: two parsers may find
 * different hosts in anything else. */
static const unsigned char character_kinds[256] = {
    ['\t'] = VALUE,
    [' '] = VALUE,
    ['!'] = TOKEN,
    ['"'] = VALUE,
    ['#' ... '\''] = TOKEN,
    ['(' ... ')'] = VALUE,
    ['*' ... '+'] = TOKEN,
    [','] = VALUE,
    ['-' ... '.'] = TOKEN | AUTHORITY,
    ['/'] = VALUE,
    ['0' ... '9'] = TOKEN | AUTHORITY,
    [':'] = VALUE | AUTHORITY,
    [';' ... '@'] = VALUE,
    ['A' ... 'Z'] = TOKEN | AUTHORITY,
    ['['] = VALUE | AUTHORITY,
    ['\\'] = VALUE,
    [']'] = VALUE | AUTHORITY,
    ['^'] = TOKEN,
    ['_'] = TOKEN | AUTHORITY,
    ['`'] = TOKEN,
    ['a' ... 'z'] = TOKEN | AUTHORITY,
    ['{'] = VALUE,
    ['|'] = TOKEN,
    ['}'] = VALUE,
    ['~'] = TOKEN | AUTHORITY,
    [0x80 ... 0xff] = VALUE,
};

/* Returns the first character not of this kind, or the text's end. */
static const char *skip(const char *text, unsigned kind)
{
    while ((character_kinds[(unsigned char)*text] & kind) == kind)
        text++;
    return text;
}

void head_read_target(const char *uri, struct request_http *http)
{
    size_t length = 0;
    bool bad = false;
    for (; uri[length]; length++)
        bad |= (unsigned char)uri[length] <= ' ' || (unsigned char)uri[length] >= 0x7f;
    size_t scheme = strncasecmp(uri, "http://", 7) == 0    ? 7
                    : strncasecmp(uri, "https://", 8) == 0 ? 8
                                                           : 0;
    const char *end = skip(uri + scheme, AUTHORITY);
    bad |= scheme > 0 && (end == uri + scheme || (*end && *end != '/' && *end != '?'));
    http->uri_length = length;
    http->path_at = scheme > 0 && !bad ? (size_t)(end - uri) : 0;
    http->bad_target = bad;
}

const char *head_value(struct MHD_Connection *mhd, const char *name)
{
    return MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, name);
}

/* The headers' statements on where the body ends, and whether the head is intact. */
struct framing {
    const char *length; /* Content-Length, or NULL */
    unsigned count;     /* headers that say where the body ends */
    unsigned hosts;
    bool chunked;
    bool bad;        /* a value that parsers may understand differently */
    bool malformed;  /* a line violates RFC 9112 */
    const char *end; /* of the previous header */
    struct once {
        const char *value;
        unsigned count;
    } request_id, traceparent;
};

enum { LINE_END = 2 }; /* CR LF */

/* libmicrohttpd ends a text at its first NUL, drops the second line of a folded header, and ends a
 * line at a lone CR or LF. Its texts lie in one buffer, with NULs in place of line ends, so each of
 * these cases leaves a gap that differs from that of CR LF. */
static void note_gap(struct framing *framing, const char *next, ptrdiff_t wanted)
{
    framing->malformed |= next - framing->end != wanted;
    for (ptrdiff_t i = 0; !framing->malformed && i < wanted; i++)
        framing->malformed = framing->end[i] != '\0';
}

/* A host, which only blanks may follow. */
static bool is_host(const char *value)
{
    value = skip(value, AUTHORITY);
    return value[strspn(value, " \t")] == '\0';
}

/* Keeps a header's value only if the header comes once. */
static void note_once(struct once *header, const char *value)
{
    header->value = header->count++ == 0 ? value : NULL;
}

static enum MHD_Result note_framing(void *cls, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct framing *framing = cls;
    (void)kind;
    const char *name_end = skip(name, TOKEN);
    note_gap(framing, name, LINE_END);
    framing->bad |= *name_end == ' ' || *name_end == '\t';
    framing->end = value ? skip(value, VALUE) : name_end;
    framing->malformed |= *name_end != '\0' || name_end == name || *framing->end != '\0';
    if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        framing->length = value;
        framing->count++;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        framing->bad |= !value || strcasecmp(value, "chunked") != 0;
        framing->chunked = true;
        framing->count++;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
        framing->hosts++;
        framing->malformed |= value && !is_host(value);
    } else if (strcasecmp(name, "X-Request-Id") == 0) {
        note_once(&framing->request_id, value);
    } else if (strcasecmp(name, "traceparent") == 0) {
        note_once(&framing->traceparent, value);
    }
    return MHD_YES;
}

/* Reads all headers; the head ends with the last one's line end and an empty line. */
static void read_framing(struct MHD_Connection *mhd, const struct head_line *line,
                         struct framing *framing)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    framing->end = line->version + strlen(line->version);
    framing->malformed = line->bad_target || line->url != skip(line->method, TOKEN) + 1 ||
                         line->version != line->url + line->uri_length + 1;
    MHD_get_connection_values(mhd, MHD_HEADER_KIND, note_framing, framing);
    assert(info);
    note_gap(framing, line->method + info->header_size, (ptrdiff_t)2 * LINE_END);
}

/* One request of a proxy must not be two here, nor a different one. If in doubt, the request is
 * refused and the connection closed (RFC 9112, 3.2, 5.1, 5.2, 6.1 and 6.3). */
enum problem head_check(struct MHD_Connection *mhd, const struct head_line *line,
                        struct trace *trace_out)
{
    struct framing framing = {.length = NULL};
    bool old = strcmp(line->version, MHD_HTTP_VERSION_1_0) == 0;
    read_framing(mhd, line, &framing);
    trace_begin(trace_out, framing.request_id.value, framing.traceparent.value);
    if (framing.bad || framing.count > 1 || (old && framing.chunked))
        return PROBLEM_AMBIGUOUS_END;
    if (framing.malformed || framing.hosts > 1 || (framing.hosts == 0 && !old))
        return PROBLEM_INVALID_HEAD;
    bool too_much = framing.length && strtoull(framing.length, NULL, 10) > BODY_MAX;
    return too_much ? PROBLEM_PAYLOAD_TOO_LARGE : PROBLEM_NONE;
}

const char *head_bearer(struct MHD_Connection *mhd)
{
    static const char scheme[] = "Bearer ";
    const char *value = head_value(mhd, MHD_HTTP_HEADER_AUTHORIZATION);
    bool bearer = value && strncasecmp(value, scheme, sizeof scheme - 1) == 0;
    return bearer ? value + sizeof scheme - 1 : NULL;
}

/* why_two_ways: no page can write Sec-Fetch-Site, and it holds behind a proxy that changes Host.
 * Browsers omit it when the page came by plain HTTP from another machine; then Origin decides,
 * which ends in what the browser sent as Host. */
bool head_own_origin(struct MHD_Connection *mhd, const char *url, size_t path_at)
{
    const char *origin = head_value(mhd, MHD_HTTP_HEADER_ORIGIN);
    const char *site = head_value(mhd, "Sec-Fetch-Site");
    const char *host = head_value(mhd, MHD_HTTP_HEADER_HOST);
    if (!origin || origin[0] == '\0')
        return true;
    if (site)
        return strcmp(site, "same-origin") == 0;
    host = path_at > 0 ? strstr(url, "://") + strlen("://") : host ? host : "";
    size_t length = (size_t)(skip(host, AUTHORITY) - host);
    const char *from = strstr(origin, "://");
    from = from ? from + strlen("://") : "";
    return length > 0 && strlen(from) == length && strncasecmp(from, host, length) == 0;
}

bool head_json(struct MHD_Connection *mhd)
{
    static const char json[] = "application/json";
    const char *type = head_value(mhd, MHD_HTTP_HEADER_CONTENT_TYPE);
    if (!type || strncasecmp(type, json, sizeof json - 1) != 0)
        return false;
    char next = type[sizeof json - 1];
    return next == '\0' || next == ';' || next == ' ' || next == '\t';
}

static enum MHD_Result note_parameter(void *cls, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct call *call = cls;
    (void)kind;
    if (call->parameter_count < PARAMETERS_MAX)
        call->parameters[call->parameter_count] = (struct call_parameter){name, value ? value : ""};
    return call->parameter_count++ < PARAMETERS_MAX ? MHD_YES : MHD_NO;
}

void head_parameters(struct MHD_Connection *mhd, struct call *call)
{
    MHD_get_connection_values(mhd, MHD_GET_ARGUMENT_KIND, note_parameter, call);
}

struct forwarded {
    const char *lists[FORWARDED_MAX];
    size_t count;
};

static enum MHD_Result note_forwarded(void *cls, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct forwarded *forwarded = cls;
    (void)kind;
    if (value && strcasecmp(name, "X-Forwarded-For") == 0)
        forwarded->lists[forwarded->count++ % FORWARDED_MAX] = value;
    return MHD_YES;
}

/* Every proxy appends, to the last header or as a further one, so the ring keeps the last headers.
 * Anything before the first untrusted address may be forged by the client. */
void head_address(struct MHD_Connection *mhd, const struct networks *proxies,
                  char text_out[NETWORKS_TEXT_SIZE])
{
    struct forwarded forwarded = {.count = 0};
    struct address address;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    text_out[0] = '\0';
    if (!info || !address_of(info->client_addr, &address))
        return;
    if (networks_hold(proxies, &address))
        MHD_get_connection_values(mhd, MHD_HEADER_KIND, note_forwarded, &forwarded);
    size_t left = forwarded.count < FORWARDED_MAX ? forwarded.count : FORWARDED_MAX;
    while (left-- > 0 &&
           address_forwarded(proxies, forwarded.lists[--forwarded.count % FORWARDED_MAX], &address))
        ;
    address_text(&address, text_out);
}

bool head_local(struct MHD_Connection *mhd)
{
    struct address address;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info && address_of(info->client_addr, &address) && address_is_loopback(&address) &&
           !head_value(mhd, "X-Forwarded-For") && !head_value(mhd, "Forwarded");
}

static enum MHD_Result note_memory(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    size_t *bytes = cls;
    *bytes += RECORD_BYTES;
    if (kind == MHD_COOKIE_KIND || kind == MHD_FOOTER_KIND) /* libmicrohttpd copies these */
        *bytes += strlen(name) + (value ? strlen(value) : 0);
    return MHD_YES;
}

/* Without room libmicrohttpd closes the connection without an answer, even if the order was
 * accepted. So such a request is refused before anything is done. */
bool head_leaves_no_room(struct MHD_Connection *mhd)
{
    enum MHD_ValueKind kinds =
        MHD_HEADER_KIND | MHD_COOKIE_KIND | MHD_GET_ARGUMENT_KIND | MHD_FOOTER_KIND;
    size_t bytes = REPLY_HEAD_BYTES;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    bytes += info ? info->header_size : 0;
    MHD_get_connection_values(mhd, kinds, note_memory, &bytes);
    return bytes > CONNECTION_MEMORY;
}
