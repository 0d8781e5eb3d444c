/* Calls the service over HTTP; the only file that knows libcurl.
 *
 * why_unknown: a change may have been carried out if its answer did not come, or came from a proxy
 * that does not know more. Only "could not connect" and the service's own words say that it was
 * not. */
#include "ctl/http.h"

#include <assert.h>
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/identifier.h"
#include "base/memory.h"
#include "ctl/output/say.h"

enum {
    BODY_MAX = 16 << 20, /* bytes of an answer */
    CONNECT_S = 5,
    URL_PATH_MAX = 1024,
    REPEATS_MAX = 2,
    REPEAT_PAUSE_MS = 300,
    HEADER_SIZE = TOKEN_SIZE + 64,
};

struct http {
    const struct config *config;
    CURL *curl; /* keeps its connections for further calls */
    long timeout_s;
    const struct address *admin; /* of the last pod that was asked */
    size_t daemon;               /* its last daemon that could be reached */
};

struct http *http_open(const struct config *config, long timeout_s)
{
    struct http *http = memory_must(calloc(1, sizeof *http));
    curl_global_init(CURL_GLOBAL_DEFAULT);
    http->config = config;
    http->curl = memory_must(curl_easy_init());
    http->timeout_s = timeout_s;
    return http;
}

void http_close(struct http *http)
{
    curl_easy_cleanup(http->curl);
    curl_global_cleanup();
    free(http);
}

void reply_free(struct reply *reply)
{
    free(reply->text);
    json_decref(reply->json);
    *reply = (struct reply){.text = NULL};
}

/* ---- the transfer ---- */

static bool changes(const struct call *call)
{
    return strcmp(call->method, "GET") != 0;
}

static size_t take_body(char *data, size_t size, size_t count, void *argument)
{
    struct reply *reply = argument;
    size_t length = size * count;
    if (reply->length + length > BODY_MAX)
        return 0;
    char *text = memory_must(realloc(reply->text, reply->length + length + 1));
    memcpy(text + reply->length, data, length);
    reply->text = text;
    reply->length += length;
    text[reply->length] = '\0';
    return length;
}

static struct curl_slist *add_header(struct curl_slist *headers, const char *name,
                                     const char *value)
{
    char line[HEADER_SIZE];
    if (!value || *value == '\0')
        return headers;
    snprintf(line, sizeof line, "%s%s", name, value);
    headers = memory_must(curl_slist_append(headers, line));
    explicit_bzero(line, sizeof line);
    return headers;
}

static struct curl_slist *make_headers(const struct http *http, const struct call *call)
{
    const char *token = call->class == CLASS_ADMIN  ? http->config->admin_token
                        : call->class == CLASS_SHOP ? http->config->shop_token
                                                    : NULL;
    struct curl_slist *headers = add_header(NULL, "Authorization: Bearer ", token);
    if (http->config->pod_count > 1) {
        char pod[8]; /* only this tells a proxy where a user's orders are */
        snprintf(pod, sizeof pod, "%zu", http->config->pod);
        headers = add_header(headers, "Seckill-Pod: ", pod);
    }
    headers = add_header(headers, "Idempotency-Key: ", call->key);
    headers = add_header(headers, "Expect:", " "); /* removes the header: bodies are small */
    return add_header(headers, "Content-Type: ", call->body ? "application/json" : NULL);
}

static void set_target(struct http *http, const struct call *call, const struct address *address)
{
    char url[ADDRESS_SIZE + URL_PATH_MAX];
    CURL *curl = http->curl;
    snprintf(url, sizeof url, "%s%s", address->base, call->path);
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, address->socket[0] ? address->socket : NULL);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* a token is for the service alone */
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
    /* On a reused connection libcurl would repeat a change without telling us. */
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, changes(call) ? 1L : 0L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, http->timeout_s);
}

static CURLcode transfer(struct http *http, const struct call *call, const struct address *address,
                         struct reply *reply)
{
    char *body = call->body ? json_dumps(call->body, JSON_COMPACT) : NULL;
    struct curl_slist *headers = make_headers(http, call);
    set_target(http, call, address);
    curl_easy_setopt(http->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(http->curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(http->curl, CURLOPT_WRITEDATA, reply);
    if (body)
        curl_easy_setopt(http->curl, CURLOPT_POSTFIELDS, body);
    CURLcode code = curl_easy_perform(http->curl);
    curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &reply->status);
    curl_slist_free_all(headers);
    free(body);
    return code;
}

/* ---- what came of it ---- */

/* True if no byte of the request can have reached a daemon. */
static bool never_sent(CURLcode code)
{
    return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
           code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
           code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION;
}

static bool timed_out_connecting(CURL *curl, CURLcode code)
{
    double sent = 0;
    curl_easy_getinfo(curl, CURLINFO_PRETRANSFER_TIME, &sent);
    return code == CURLE_OPERATION_TIMEDOUT && sent == 0;
}

static void judge_no_answer(CURL *curl, const struct call *call, CURLcode code,
                            const struct address *address, struct reply *reply)
{
    bool unsent = never_sent(code) || timed_out_connecting(curl, code);
    reply->outcome = unsent || !changes(call) ? OUTCOME_FAILED : OUTCOME_UNKNOWN;
    snprintf(reply->why, sizeof reply->why, "%s: %s", address->shown, curl_easy_strerror(code));
    if (unsent)
        reply->status = 0;
}

static void read_problem(struct reply *reply)
{
    const char *code = json_string_value(json_object_get(reply->json, "code"));
    const char *detail = json_string_value(json_object_get(reply->json, "detail"));
    snprintf(reply->code, sizeof reply->code, "%s", code ? code : "");
    if (code)
        snprintf(reply->why, sizeof reply->why, "%s: %s", code, detail ? detail : "");
    else
        snprintf(reply->why, sizeof reply->why,
                 "the answer is HTTP status %ld, and not one of "
                 "this service",
                 reply->status);
    say_clean(reply->code);
    say_clean(reply->why);
}

static void judge_answer(const struct call *call, struct reply *reply)
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): reply_free leaves no text */
    reply->json = reply->text ? json_loadb(reply->text, reply->length, 0, NULL) : NULL;
    if (reply->status == 200 || reply->status == 201) {
        reply->outcome = OUTCOME_OK;
        return;
    }
    read_problem(reply);
    bool certain = reply->code[0] != '\0' && strcmp(reply->code, "outcome_unknown") != 0;
    if (reply->status < 500 && reply->status != 408 && reply->status != 429)
        reply->outcome = OUTCOME_REFUSED;
    else
        reply->outcome = certain || !changes(call) ? OUTCOME_FAILED : OUTCOME_UNKNOWN;
}

static void call_address(struct http *http, const struct call *call, const struct address *address,
                         struct reply *reply)
{
    bool repeated = reply->repeated;
    reply_free(reply);
    reply->repeated = repeated;
    CURLcode code = transfer(http, call, address, reply);
    if (code == CURLE_OK)
        judge_answer(call, reply);
    else
        judge_no_answer(http->curl, call, code, address, reply);
    if (!reply->text)
        take_body("", 1, 0, reply);
}

/* Goes on to the next daemon only while none can have got the request. */
static void call_any(struct http *http, const struct call *call, struct reply *reply)
{
    const struct config *config = http->config;
    if (call->address || call->class == CLASS_BUYER || call->class == CLASS_SHOP) {
        call_address(http, call, call->address ? call->address : config->shop, reply);
        return;
    }
    if (http->admin != config->admin) {
        http->admin = config->admin;
        http->daemon = 0;
    }
    for (size_t tried = 0; tried < config->admin_count; tried++) {
        call_address(http, call, &config->admin[http->daemon], reply);
        if (reply->outcome != OUTCOME_FAILED || reply->status != 0)
            return;
        http->daemon = (http->daemon + 1) % config->admin_count;
    }
}

/* True if the answer to a repeat leaves the first try unknown, because the service has not checked
 * what that may have done. */
static bool says_nothing(const struct reply *reply)
{
    return reply->outcome == OUTCOME_FAILED ||
           (reply->outcome == OUTCOME_REFUSED && (reply->status == 401 || reply->code[0] == '\0' ||
                                                  strcmp(reply->code, "not_found") == 0));
}

void http_call(struct http *http, const struct call *call, struct reply *reply_out)
{
    *reply_out = (struct reply){.text = NULL};
    call_any(http, call, reply_out);
    for (int i = 0; i < REPEATS_MAX && reply_out->outcome == OUTCOME_UNKNOWN; i++) {
        reply_out->repeated = true;
        clock_sleep_ns(REPEAT_PAUSE_MS * CLOCK_NS_PER_MS);
        call_any(http, call, reply_out);
        if (says_nothing(reply_out))
            reply_out->outcome = OUTCOME_UNKNOWN;
    }
}

const char *http_encode(const char *text, char out[ENCODED_SIZE])
{
    char *to = out;
    assert(strlen(text) < PLAIN_SIZE);
    *to = '\0';
    for (const char *from = text; *from; from++)
        to += identifier_alphabet[(unsigned char)*from]
                  ? sprintf(to, "%c", *from)
                  : sprintf(to, "%%%02X", (unsigned char)*from);
    return out;
}
