/* The head of a request: where the request ends, who sends it, and from where. */
#include <assert.h>
#include <stdint.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "service/http/http.h"

enum {
    FORWARDED_MAX = 8, /* X-Forwarded-For headers read of one request */
    QUERY_PARAMETERS_MAX = 50,
    TARGET_MAX = 4096,  /* bytes of a target */
    RECORD_BYTES = 64,  /* libmicrohttpd's memory per header, cookie and parameter */
    REPLY_BYTES = 1024, /* of its memory, kept for the head of an answer */
    MEMORY_MAX = CONNECTION_MEMORY - REPLY_BYTES, /* for a head and a trailer */
    /* From 1.0 on, by head_options. */
    LIBRARY_IS_STRICT = MHD_VERSION >= 0x01000000,
};

static_assert((int)STOCK_ADDRESS_SIZE == (int)NETWORKS_TEXT_SIZE, "an order holds an address");

struct MHD_OptionItem *head_options(void)
{
    static struct MHD_OptionItem options[] = {
#if MHD_VERSION >= 0x01000000
        {MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL},
#endif
        {MHD_OPTION_END, 0, NULL},
    };
    return options;
}

bool head_library_fits(void)
{
    return strtoul(MHD_get_version(), NULL, 10) == MHD_VERSION >> 24;
}

/* libmicrohttpd stores a record per parameter before it calls anybody, and silently closes
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
    bool closes, kept; /* what Connection says */
    bool bad;          /* a value that parsers may understand differently */
    bool malformed;    /* a line violates RFC 9112 */
    bool repeated;     /* a header of once_only came twice */
    unsigned seen;     /* headers of once_only, as bits */
    size_t memory;     /* bytes that libmicrohttpd needs besides the head's own */
    struct head_gaps gaps;
    struct once {
        const char *value;
        unsigned count;
    } request_id, traceparent;
};

/* A host, which only blanks may follow. */
static bool is_host(const char *value)
{
    value = skip(value, AUTHORITY);
    return value[strspn(value, " \t")] == '\0';
}

static bool is_number(const char *value)
{
    size_t digits = strspn(value, "0123456789");
    return digits > 0 && value[digits] == '\0';
}

/* Whether a list of words, with commas and blanks between them, has this one. */
static bool has_token(const char *list, const char *token)
{
    static const char between[] = ", \t";
    for (const char *at = list + strspn(list, between); *at; at += strspn(at, between)) {
        size_t length = strcspn(at, between);
        if (length == strlen(token) && strncasecmp(at, token, length) == 0)
            return true;
        at += length;
    }
    return false;
}

/* Keeps a header's value only if the header comes once. */
static void note_once(struct once *header, const char *value)
{
    header->value = header->count++ == 0 ? value : NULL;
}

static void note_memory(size_t *bytes, enum MHD_ValueKind kind, const char *name, const char *value)
{
    *bytes += RECORD_BYTES;
    if (kind == MHD_COOKIE_KIND || kind == MHD_FOOTER_KIND) /* libmicrohttpd copies these */
        *bytes += strlen(name) + (value ? strlen(value) : 0);
}

/* What a call means depends on each of these, and a proxy may take another one than the first (RFC
 * 9110, 5.3). X-Forwarded-For is a list, so that several of it make one. */
static void note_repeated(struct framing *framing, const char *name, size_t length)
{
    static const struct {
        size_t length;
        const char *name;
    } once_only[] = {{12, "Content-Type"},
                     {15, "Idempotency-Key"},
                     {13, "Authorization"},
                     {6, "Origin"},
                     {14, "Sec-Fetch-Site"}};
    for (unsigned i = 0; i < sizeof once_only / sizeof *once_only; i++) {
        bool is =
            length == once_only[i].length && strncasecmp(name, once_only[i].name, length) == 0;
        framing->repeated |= is && (framing->seen & 1U << i);
        framing->seen |= (unsigned)is << i;
    }
}

#define IS_NAME(text) (length == sizeof(text) - 1 && strncasecmp(name, text, length) == 0)

static enum MHD_Result note_framing(void *cls, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct framing *framing = cls;
    note_memory(&framing->memory, kind, name, value);
    if (kind != MHD_HEADER_KIND)
        return MHD_YES;
    const char *name_end = skip(name, TOKEN), *end = value ? skip(value, VALUE) : name_end;
    if (framing->gaps.end)
        head_gaps_header(&framing->gaps, name, end);
    size_t length = (size_t)(name_end - name); /* seldom that of a name that is looked for */
    framing->malformed |= *name_end != '\0' || name_end == name || *end != '\0';
    if (IS_NAME(MHD_HTTP_HEADER_CONTENT_LENGTH)) {
        framing->bad |= !value || !is_number(value);
        framing->length = value;
        framing->count++;
    } else if (IS_NAME(MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        framing->bad |= !value || strcasecmp(value, "chunked") != 0;
        framing->chunked = true;
        framing->count++;
    } else if (IS_NAME(MHD_HTTP_HEADER_HOST)) {
        framing->hosts++;
        framing->malformed |= value && !is_host(value);
    } else if (IS_NAME(MHD_HTTP_HEADER_CONNECTION)) {
        framing->closes |= value && has_token(value, "close");
        framing->kept |= value && has_token(value, "keep-alive");
    } else if (IS_NAME("X-Request-Id")) {
        note_once(&framing->request_id, value);
    } else if (IS_NAME("traceparent")) {
        note_once(&framing->traceparent, value);
    } else {
        note_repeated(framing, name, length);
    }
    return MHD_YES;
}

#undef IS_NAME

static size_t head_size(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info ? info->header_size : 0;
}

static void read_framing(struct MHD_Connection *mhd, const struct head_line *line,
                         struct framing *framing)
{
    enum MHD_ValueKind kinds = MHD_HEADER_KIND | MHD_COOKIE_KIND | MHD_GET_ARGUMENT_KIND;
    size_t size = head_size(mhd);
    framing->malformed = line->bad_target || *skip(line->method, TOKEN) != '\0';
    if (!LIBRARY_IS_STRICT)
        head_gaps_begin(&framing->gaps, line);
    MHD_get_connection_values(mhd, kinds, note_framing, framing);
    if (!LIBRARY_IS_STRICT)
        framing->malformed |= !head_gaps_intact(&framing->gaps, line, size);
    framing->memory += size;
}

static bool is_ambiguous(const struct framing *framing)
{
    return framing->bad || framing->count > 1;
}

static bool is_long(const struct framing *framing)
{
    return framing->length && strtoull(framing->length, NULL, 10) > BODY_MAX;
}

/* A target that is too long, rather than headers that are. */
static enum problem too_large(size_t uri_length)
{
    return uri_length > TARGET_MAX ? PROBLEM_URI_TOO_LONG : PROBLEM_HEADERS_TOO_LARGE;
}

/* One request of a proxy must not be two here, nor a different one. If in doubt, the request is
 * refused and the connection closed (RFC 9112, 3.2, 5.1, 5.2, 6.1 and 6.3).
 *
 * why_room: without room for an answer's head libmicrohttpd closes the connection in silence, even
 * if the order was accepted. So what leaves too little is refused before anything is done. */
enum problem head_check(struct MHD_Connection *mhd, const struct head_line *line,
                        struct trace *trace_out, size_t *memory_out, bool *closes_out)
{
    struct framing framing = {.length = NULL};
    bool old = strcmp(line->version, MHD_HTTP_VERSION_1_0) == 0;
    read_framing(mhd, line, &framing);
    trace_begin(trace_out, framing.request_id.value, framing.traceparent.value);
    *memory_out = framing.chunked ? framing.memory : 0;
    *closes_out = framing.closes || (old && !framing.kept);
    if (is_ambiguous(&framing) || (old && framing.chunked))
        return PROBLEM_AMBIGUOUS_END;
    if (framing.malformed || framing.hosts > 1 || (framing.hosts == 0 && !old))
        return PROBLEM_INVALID_HEAD;
    if (line->uri_length > TARGET_MAX || framing.memory > MEMORY_MAX)
        return too_large(line->uri_length);
    if (framing.repeated)
        return PROBLEM_REPEATED_HEADER;
    return is_long(&framing) ? PROBLEM_PAYLOAD_TOO_LARGE : PROBLEM_NONE;
}

enum problem head_refused(struct MHD_Connection *mhd, unsigned status,
                          const struct request_http *http)
{
    struct framing framing = {.length = NULL};
    bool in_body = http && http->phase != PHASE_HEAD;
    bool length = status == MHD_HTTP_CONTENT_TOO_LARGE;
    MHD_get_connection_values(mhd, MHD_HEADER_KIND, note_framing, &framing);
    /* Of a whole head with one Host only what it says of the body's end is left to refuse. */
    bool whole = LIBRARY_IS_STRICT && !in_body && head_size(mhd) > 0 && framing.hosts == 1;
    if (is_ambiguous(&framing) || (whole && framing.chunked))
        return PROBLEM_AMBIGUOUS_END;
    if (is_long(&framing) || (in_body && length))
        return PROBLEM_PAYLOAD_TOO_LARGE;
    if (status == MHD_HTTP_HTTP_VERSION_NOT_SUPPORTED)
        return PROBLEM_HTTP_VERSION;
    if (length || status == MHD_HTTP_URI_TOO_LONG ||
        status == MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE || status == MHD_HTTP_NOT_IMPLEMENTED)
        return too_large(http ? http->uri_length
                              : SIZE_MAX); /* or a method that fills the memory */
    return in_body ? PROBLEM_AMBIGUOUS_END : PROBLEM_INVALID_HEAD;
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

struct trailer {
    struct MHD_Connection *mhd;
    size_t memory;
};

/* libmicrohttpd 0.9.75 may tell the head's last header once more as the trailer's first. */
static enum MHD_Result note_trailer(void *cls, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct trailer *trailer = cls;
    if (!value || head_value(trailer->mhd, name) != value)
        note_memory(&trailer->memory, kind, name, value);
    return MHD_YES;
}

bool head_leaves_no_room(struct MHD_Connection *mhd, size_t memory)
{
    struct trailer trailer = {mhd, memory};
    MHD_get_connection_values(mhd, MHD_FOOTER_KIND, note_trailer, &trailer);
    return trailer.memory > MEMORY_MAX;
}
