/* One request to a webhook: its signature, the transfer, and its outcome. */
#include "service/events/webhook_http.h"

#include <assert.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config_file.h"
#include "base/memory.h"
#include "service/request/answer.h"

enum {
    SECRET_BYTES = 32,
    RECEIVED_MAX = 4096, /* bytes of an answer; the rest is not waited for */
    HEADER_SIZE = 2 * WEBHOOK_SIGNATURE_SIZE + 64,
    HEADERS_MAX = 8, /* of an operator */
};

#define HEADER_NAME_SIGNS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

/* ---- signatures and waits ---- */

void webhook_secret_make(char secret_out[WEBHOOK_SECRET_SIZE])
{
    unsigned char bytes[SECRET_BYTES];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        abort();
    EVP_EncodeBlock((unsigned char *)secret_out, bytes, sizeof bytes);
    explicit_bzero(bytes, sizeof bytes);
}

/* Returns the number of bytes, or -1. */
static int decode(const char *secret, unsigned char bytes_out[WEBHOOK_SECRET_SIZE])
{
    size_t length = strlen(secret);
    if (length == 0 || length >= WEBHOOK_SECRET_SIZE)
        return -1;
    int count = EVP_DecodeBlock(bytes_out, (const unsigned char *)secret, (int)length);
    if (count < 0)
        return -1;
    /* The count includes the bytes that the padding stands for. */
    return count - (secret[length - 1] == '=') - (length > 1 && secret[length - 2] == '=');
}

bool webhook_sign(const char *secret, const char *text, size_t length,
                  char signature_out[WEBHOOK_SIGNATURE_SIZE])
{
    unsigned char key[WEBHOOK_SECRET_SIZE], code[EVP_MAX_MD_SIZE];
    unsigned code_length = 0;
    signature_out[0] = '\0';
    int key_length = decode(secret, key);
    if (key_length < 0 || !HMAC(EVP_sha256(), key, key_length, (const unsigned char *)text, length,
                                code, &code_length))
        return false;
    explicit_bzero(key, sizeof key);
    char *at = stpcpy(signature_out, "v1,");
    EVP_EncodeBlock((unsigned char *)at, code, (int)code_length);
    return true;
}

unsigned webhook_retry_after_s(const char *text, int64_t now_ms)
{
    size_t digits = strspn(text, "0123456789");
    int64_t seconds = 0;
    if (digits > 0 && text[digits] == '\0') {
        seconds = digits > 9 ? RETRY_AFTER_S_MAX : strtol(text, NULL, 10);
    } else {
        time_t date = curl_getdate(text, NULL);
        seconds = date > 0 ? date - now_ms / 1000 : 0;
    }
    return seconds <= 0 ? 0 : seconds < RETRY_AFTER_S_MAX ? (unsigned)seconds : RETRY_AFTER_S_MAX;
}

int64_t webhook_backoff_ms(unsigned failures, int64_t failing_ms, int64_t max_ms, int random)
{
    enum { FIRST_MS = 1000, QUICK_MS = 15 * 1000, HOUR_MS = 3600 * 1000, DOUBLINGS = 12 };
    static_assert(FIRST_MS << DOUBLINGS >= 1000 * (int)WEBHOOK_MAX_retry_max_s, "passes the end");
    assert(failures > 0);
    int64_t most_ms = failing_ms <= HOUR_MS ? QUICK_MS : QUICK_MS + (failing_ms - HOUR_MS) / 4;
    int64_t ms = FIRST_MS << (failures > DOUBLINGS ? DOUBLINGS : failures - 1);
    ms = ms > most_ms ? most_ms : ms;
    ms = ms > max_ms ? max_ms : ms;
    return ms - random % (ms / 2 + 1);
}

/* ---- headers ---- */

const char *webhook_header_add(char lines[WEBHOOK_HEADERS_SIZE], const char *name,
                               const char *value)
{
    static const char *const ours[] = {"host",       "user-agent", "expect",
                                       "connection", "te",         "transfer-encoding",
                                       "trailer",    "upgrade",    "keep-alive"};
    size_t length = strlen(lines), name_length = strlen(name), count = 1;
    bool taken = strncasecmp(name, "webhook-", 8) == 0 || strncasecmp(name, "content-", 8) == 0;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        taken |= strcasecmp(name, ours[i]) == 0;
    for (const char *at = lines; *at; at += strcspn(at, "\n"), at += *at == '\n', count++)
        taken |= strncasecmp(at, name, name_length) == 0 && at[name_length] == ':';
    if (name_length == 0 || name_length != strspn(name, HEADER_NAME_SIGNS) || taken)
        return "headers has a name that is not one of HTTP, comes twice, or is the service's.";
    for (const char *at = value; *at; at++)
        taken |= *at < ' ' || *at > '~';
    if (taken || value[0] <= ' ' || value[strlen(value) - 1] == ' ')
        return "headers has a value that is not of visible ASCII characters, with blanks inside.";
    if (count > HEADERS_MAX || length + name_length + strlen(value) + 4 > WEBHOOK_HEADERS_SIZE)
        return "headers must be an object of at most 8 texts, of 2048 bytes together.";
    sprintf(lines + length, "%s%s: %s", length > 0 ? "\n" : "", name, value);
    return NULL;
}

static void add_line(struct webhook_call *call, const char *line)
{
    call->headers = memory_must(curl_slist_append(call->headers, line));
}

static void add_header(struct webhook_call *call, const char *name, const char *value)
{
    char line[HEADER_SIZE];
    snprintf(line, sizeof line, "%s: %s", name, value);
    add_line(call, line);
}

static void add_settings(struct webhook_call *call)
{
    const struct webhook_settings *settings = &call->webhook->settings;
    char line[WEBHOOK_HEADERS_SIZE];
    add_header(call, "Content-Type",
               !settings->cloudevents ? "application/json"
               : call->body[0] == '[' ? "application/cloudevents-batch+json"
                                      : "application/cloudevents+json");
    for (const char *at = settings->headers; *at; at += *at == '\n') {
        size_t length = strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, at);
        add_line(call, line);
        at += length;
    }
    explicit_bzero(line, sizeof line);
}

/* What is signed ends in the body, so that its head is written before it. */
static void add_signatures(struct webhook_call *call)
{
    char head[WEBHOOK_HEAD_MAX], seconds[24], both[2 * WEBHOOK_SIGNATURE_SIZE];
    char old[WEBHOOK_SIGNATURE_SIZE];
    snprintf(seconds, sizeof seconds, "%lld", (long long)(call->now_ms / 1000));
    int length = snprintf(head, sizeof head, "%s.%s.", call->id, seconds);
    assert(length < WEBHOOK_HEAD_MAX);
    char *text = call->body - length;
    memcpy(text, head, (size_t)length);
    size_t all = (size_t)length + call->length;
    const struct ledger_webhook *webhook = call->webhook;
    webhook_sign(webhook->secret, text, all, both);
    if (webhook->old_secret[0] != '\0' && webhook_sign(webhook->old_secret, text, all, old))
        strcat(strcat(both, " "), old);
    add_header(call, "webhook-id", call->id);
    add_header(call, "webhook-timestamp", seconds);
    add_header(call, "webhook-signature", both);
}

/* ---- the transfer ---- */

/* Looks at the address that the name led to, after which it is used at once. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct webhook_call *call = context;
    struct address address;
    if (purpose != CURLSOCKTYPE_IPCXN || !address_of(&to->addr, &address) ||
        !webhook_address_allowed(&call->client->own, &address, call->tls)) {
        call->refused = true;
        return CURL_SOCKET_BAD;
    }
    call->tried = true;
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Keeps the beginning, and ends the transfer when the answer is too long. */
static size_t take_answer(char *data, size_t size, size_t count, void *context)
{
    struct webhook_call *call = context;
    size_t length = size * count;
    for (size_t i = 0; i < length && call->answer_length < sizeof call->answer - 1; i++)
        call->answer[call->answer_length++] = data[i] >= ' ' && data[i] <= '~' ? data[i] : ' ';
    call->received += length;
    return call->received <= RECEIVED_MAX ? length : 0;
}

static size_t take_header(char *data, size_t size, size_t count, void *context)
{
    static const char name[] = "retry-after:";
    struct webhook_call *call = context;
    size_t length = size * count;
    char value[64];
    if (length < sizeof name || strncasecmp(data, name, sizeof name - 1) != 0)
        return length;
    snprintf(value, sizeof value, "%.*s", (int)(length - (sizeof name - 1)),
             data + sizeof name - 1);
    call->retry_after_s = webhook_retry_after_s(text_trim(value), call->now_ms);
    return length;
}

static void set_limits(const struct webhook_call *call)
{
    CURL *easy = call->easy;
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* the check is of the receiver's address */
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* a look-up that hangs is not waited for */
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, call->timeout_ms);
    if (call->client->ca_file[0] != '\0')
        curl_easy_setopt(easy, CURLOPT_CAINFO, call->client->ca_file);
}

static void set_callbacks(struct webhook_call *call)
{
    CURL *easy = call->easy;
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, call);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_answer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
}

void webhook_client_init(struct webhook_client *client, const struct config *config)
{
    bool parsed = networks_parse(config->webhook_networks, &client->own);
    assert(parsed); /* config_load has checked it with the same function */
    client->ca_file = config->webhook_ca_file;
}

void webhook_call_begin(struct webhook_call *call)
{
    call->easy = memory_must(curl_easy_init());
    call->headers = NULL;
    call->status = call->retry_after_s = 0;
    call->answer_length = call->received = 0;
    call->error[0] = '\0';
    const char *url = call->webhook->settings.url;
    call->tls = webhook_url_tls(url);
    call->refused = call->tried = false;
    add_signatures(call);
    add_settings(call);
    add_header(call, "User-Agent", SECKILL_PROGRAM "/" SECKILL_VERSION);
    add_header(call, "Expect", ""); /* removes the header */
    set_limits(call);
    set_callbacks(call);
    curl_easy_setopt(call->easy, CURLOPT_URL, url);
    curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->length);
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->body);
}

void webhook_call_drop(struct webhook_call *call)
{
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    call->easy = NULL;
    call->headers = NULL;
}

enum webhook_outcome webhook_call_end(struct webhook_call *call, CURLcode code)
{
    long status = 0;
    bool cut = code == CURLE_WRITE_ERROR && call->received > RECEIVED_MAX;
    bool answered = code == CURLE_OK || cut;
    if (answered)
        curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    else if (call->refused && !call->tried)
        call->answer_length = (size_t)sprintf(call->answer, "The address is not allowed.");
    else
        call->answer_length = (size_t)snprintf(
            call->answer, sizeof call->answer, "%s%s",
            call->refused ? "One address of the host is not allowed. Of another: " : "",
            call->error[0] ? call->error : curl_easy_strerror(code));
    if (call->answer_length >= sizeof call->answer)
        call->answer_length = sizeof call->answer - 1;
    call->answer[call->answer_length] = '\0';
    call->status = (unsigned)status;
    webhook_call_drop(call);
    return status / 100 == 2                  ? WEBHOOK_OUTCOME_OK
           : status == 410                    ? WEBHOOK_OUTCOME_DISABLED
           : answered                         ? WEBHOOK_OUTCOME_FAILED
           : call->refused && !call->tried    ? WEBHOOK_OUTCOME_REFUSED
           : code == CURLE_OPERATION_TIMEDOUT ? WEBHOOK_OUTCOME_TIMEOUT
                                              : WEBHOOK_OUTCOME_FAILED;
}
