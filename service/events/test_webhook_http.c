/* A request to a webhook: its signature, how long to wait after it, and where it may go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/test_range.h"
#include "service/events/webhook_http.h"

/* ---- signatures and waits ---- */

#define SECRET "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" /* of the specification's libraries */

static void test_signature_is_that_of_the_specification(void **state)
{
    static const char text[] = "msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}";
    char signature[WEBHOOK_SIGNATURE_SIZE];
    (void)state;
    assert_true(webhook_sign(SECRET, text, strlen(text), signature));
    assert_string_equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

static void test_key_of_32_bytes_loses_its_padding(void **state)
{
    /* The HMAC-SHA256 of "a" with 32 zero bytes is that with no key: zeros fill both up. */
    char signature[WEBHOOK_SIGNATURE_SIZE], other[WEBHOOK_SIGNATURE_SIZE];
    (void)state;
    assert_true(webhook_sign("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "a", 1, signature));
    assert_true(webhook_sign("AA==", "a", 1, other));
    assert_string_equal(signature, other);
    assert_true(webhook_sign("AQ==", "a", 1, other));
    assert_string_not_equal(signature, other);
    assert_false(webhook_sign("", "a", 1, other));
    assert_false(webhook_sign("not base64!!", "a", 1, other));
}

static void test_secrets_differ_and_sign(void **state)
{
    char a[WEBHOOK_SECRET_SIZE], b[WEBHOOK_SECRET_SIZE], signature[WEBHOOK_SIGNATURE_SIZE];
    (void)state;
    webhook_secret_make(a);
    webhook_secret_make(b);
    assert_int_equal(strlen(a), 44);
    assert_string_not_equal(a, b);
    assert_true(webhook_sign(a, "a", 1, signature));
    assert_int_equal(strlen(signature), WEBHOOK_SIGNATURE_SIZE - 1);
}

static void test_retry_after_is_seconds_or_a_date(void **state)
{
    static const struct {
        const char *text;
        unsigned seconds;
    } rows[] = {
        {"0", 0},
        {"1", 1},
        {"120", 120},
        {"3600", 3600},
        {"3601", 3600},
        {"99999999999999999999", 3600},
        {"20261120", 3600},
        {"Fri, 20 Nov 2026 20:00:30 GMT", 30},
        {"Friday, 20-Nov-26 20:00:30 GMT", 30},
        {"Fri Nov 20 20:00:30 2026", 30},
        {"Fri, 20 Nov 2026 19:59:00 GMT", 0},
        {"Fri, 20 Nov 2037 20:00:00 GMT", 3600},
        {"-5", 0},
        {"1.5", 0},
        {"soon", 0},
        {"", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(webhook_retry_after_s(rows[i].text, INT64_C(1795204800000)),
                         rows[i].seconds);
}

enum { HOUR_MS = 3600 * 1000 };

static void test_waits_stay_short_for_an_hour(void **state)
{
    (void)state;
    assert_int_equal(webhook_backoff_ms(1, 0, HOUR_MS, 0), 1000);
    assert_int_equal(webhook_backoff_ms(2, 0, HOUR_MS, 0), 2000);
    assert_int_equal(webhook_backoff_ms(4, 0, HOUR_MS, 0), 8000);
    assert_int_equal(webhook_backoff_ms(5, 0, HOUR_MS, 0), 15000);
    assert_int_equal(webhook_backoff_ms(UINT32_MAX, HOUR_MS, HOUR_MS, 0), 15000);
    assert_int_equal(webhook_backoff_ms(UINT32_MAX, 2 * HOUR_MS, HOUR_MS, 0), HOUR_MS / 4 + 15000);
    assert_int_equal(webhook_backoff_ms(UINT32_MAX, 9 * HOUR_MS, HOUR_MS, 0), HOUR_MS);
    assert_int_equal(webhook_backoff_ms(UINT32_MAX, INT64_C(100) * HOUR_MS, 3000, 0), 3000);
    for (int random = 0; random < 5000; random++)
        assert_int_in_range(webhook_backoff_ms(1, 0, HOUR_MS, random), 500, 1000);
}

/* ---- headers of operators ---- */

static void test_headers_that_are_not_the_operators_are_refused(void **state)
{
    static const char *const names[] = {
        "",           "a b",          "a:",        "a\r\nb",     "\xc3\xa9",          "Host",
        "WEBHOOK-ID", "Content-Type", "X-API-KEY", "Connection", "Transfer-Encoding", "expect"};
    static const char *const values[] = {"",     " a",   "a ",      "a\r\nHost: b",
                                         "a\nb", "a\tb", "\xc3\xa9"};
    char lines[WEBHOOK_HEADERS_SIZE] = "", name[8], value[WEBHOOK_HEADERS_SIZE];
    (void)state;
    assert_null(webhook_header_add(lines, "X-Api-Key", "a b"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_non_null(webhook_header_add(lines, names[i], "a"));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_non_null(webhook_header_add(lines, "B", values[i]));
    assert_string_equal(lines, "X-Api-Key: a b");
    memset(value, 'v', sizeof value);
    value[WEBHOOK_HEADERS_SIZE - sizeof "X-Api-Key: a b\nB: "] = '\0';
    assert_non_null(webhook_header_add(lines, "BB", value));
    assert_null(webhook_header_add(lines, "B", value));
    strcpy(lines, "");
    for (int i = 0; i <= 8; i++) {
        snprintf(name, sizeof name, "n%u", (unsigned)i % 10);
        assert_true(!webhook_header_add(lines, name, "v") == (i < 8));
    }
}

/* ---- targets ---- */

static struct webhook_client client;
static struct ledger_webhook webhook = {.settings = {.cloudevents = true}, .secret = SECRET};

static void allow(const char *networks)
{
    const struct config config = {.webhook_networks = (char *)(uintptr_t)networks,
                                  .webhook_ca_file = (char *)(uintptr_t) ""};
    webhook_client_init(&client, &config);
}

/* Sends a request. `resolve`: what a name server says, as libcurl takes it, or NULL. */
static enum webhook_outcome post(const char *url, const char *resolve, struct webhook_call *call)
{
    char text[WEBHOOK_HEAD_MAX + 2] = "";
    *call = (struct webhook_call){.client = &client,
                                  .webhook = &webhook,
                                  .id = "evt_0_1",
                                  .body = text + WEBHOOK_HEAD_MAX,
                                  .length = 2,
                                  .now_ms = 1795204800000,
                                  .timeout_ms = 5000};
    memcpy(call->body, "{}", 2);
    strcpy(webhook.settings.url, url);
    struct curl_slist *names = resolve ? curl_slist_append(NULL, resolve) : NULL;
    webhook_call_begin(call);
    curl_easy_setopt(call->easy, CURLOPT_RESOLVE, names);
    enum webhook_outcome outcome = webhook_call_end(call, curl_easy_perform(call->easy));
    curl_slist_free_all(names);
    return outcome;
}

static const char *const private_hosts[] = {
    /* loopback, in every notation of IPv4 */
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0x7F.0x0.0x0.0x1",
    "017700000001",
    "0177.0.0.1",
    "0177.1",
    "00000177.0.0.01",
    /* this host, private, shared, link-local, reserved, multicast */
    "0.0.0.0",
    "0",
    "0.1.2.3",
    "10.0.0.1",
    "167772161",
    "0xa000001",
    "012.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.257",
    "192.0.0.8",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "4294967295",
    /* IPv6: unspecified, loopback, IPv4 in several forms, unique-local, link-local, reserved */
    "[::]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:10.0.0.1]",
    "[0:0:0:0:0:ffff:a9fe:a9fe]",
    "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a00:1]",
    "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::8.8.8.8]",
    "[2002:7f00:1::]",
    "[2002:a00:1::1]",
    "[2002:c0a8:101::]",
    "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[fc00::1]",
    "[fd12:3456::1]",
    "[fe80::1]",
    "[fec0::1]",
    "[ff02::1]",
    "[100::1]",
    "[4000::1]",
    "[8000::1]",
    "localhost",

};

static void test_address_that_is_not_public_is_never_connected_to(void **state)
{
    char url[128];
    struct webhook_call call;
    (void)state;
    allow("");
    assert_true(sizeof private_hosts / sizeof *private_hosts >= 40);
    for (size_t i = 0; i < sizeof private_hosts / sizeof *private_hosts; i++) {
        for (int tls = 0; tls <= 1; tls++) {
            snprintf(url, sizeof url, "%s://%s:9/hook", tls ? "https" : "http", private_hosts[i]);
            if (post(url, NULL, &call) != WEBHOOK_OUTCOME_REFUSED)
                fail_msg("%s: %s", url, call.answer);
        }
    }
}

static void test_url_of_such_an_address_is_refused_at_once(void **state)
{
    char url[128];
    struct networks none = {.count = 0};
    (void)state;
    for (size_t i = 0; i < sizeof private_hosts / sizeof *private_hosts; i++) {
        snprintf(url, sizeof url, "https://%s/hook", private_hosts[i]);
        bool name = strncmp(private_hosts[i], "localhost", 9) == 0;
        const char *fault = webhook_url_fault(&none, url);
        if (!fault && !name)
            fail_msg("%s has no fault", url);
    }
}

static void test_name_is_judged_by_the_address_of_its_last_look_up(void **state)
{
    static const char *const resolved[] = {
        "public.example:9:127.0.0.1",       "public.example:9:10.1.2.3",
        "public.example:9:169.254.169.254", "public.example:9:[::ffff:192.168.0.1]",
        "public.example:9:[fd00::1]",       "public.example:9:[64:ff9b::10.0.0.1]",
    };
    struct webhook_call call;
    struct networks none = {.count = 0};
    (void)state;
    allow("");
    assert_null(webhook_url_fault(&none, "https://public.example:9/"));
    for (size_t i = 0; i < sizeof resolved / sizeof *resolved; i++)
        assert_int_equal(post("https://public.example:9/", resolved[i], &call),
                         WEBHOOK_OUTCOME_REFUSED);
}

static bool allowed(const char *text, bool tls)
{
    struct address address;
    assert_true(address_parse(text, strlen(text), &address));
    return webhook_address_allowed(&client.own, &address, tls);
}

static void test_name_with_one_allowed_address_tells_both(void **state)
{
    struct webhook_call call;
    (void)state;
    allow("127.0.0.1/32");
    assert_int_equal(post("http://two.example:9/", "two.example:9:127.0.0.2,127.0.0.1", &call),
                     WEBHOOK_OUTCOME_FAILED);
    assert_non_null(strstr(call.answer, "not allowed"));
    assert_non_null(strstr(call.answer, "onnect"));
}

static void test_public_addresses_need_tls_and_own_networks_do_not(void **state)
{
    (void)state;
    allow("10.20.0.0/16, fd00:1::/32");
    assert_true(allowed("8.8.8.8", true));
    assert_false(allowed("8.8.8.8", false));
    assert_true(allowed("2606:4700::1111", true));
    assert_true(allowed("64:ff9b::8.8.8.8", true));
    assert_true(allowed("2002:808:808::1", true));
    assert_true(allowed("172.15.255.255", true));
    assert_true(allowed("100.128.0.1", true));
    assert_true(allowed("10.20.1.1", true));
    assert_true(allowed("10.20.1.1", false));
    assert_true(allowed("::ffff:10.20.1.1", false));
    assert_true(allowed("fd00:1::5", false));
    assert_false(allowed("10.21.0.1", true));
    assert_false(allowed("fd00:2::5", true));
}

static void test_urls_are_checked(void **state)
{
    char long_url[600];
    (void)state;
    static const char *const bad[] = {
        "",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "example.com",
        "//example.com",
        "https://user@example.com/",
        "https://user:secret@example.com/",
        "https://:secret@example.com/",
        "https:///",
        "https://exa mple.com/",
        "https://example.com/\xc3\xa9",
        "https://example.com:99999/",
        "https://[::1/",
        "http://8.8.8.8/",
        "javascript:alert(1)",
    };
    allow("");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!webhook_url_fault(&client.own, bad[i]))
            fail_msg("%s has no fault", bad[i]);
    assert_null(webhook_url_fault(&client.own, "https://example.com/hook?token=a%20b#x"));
    assert_null(webhook_url_fault(&client.own, "HTTPS://EXAMPLE.com:8443"));
    assert_null(webhook_url_fault(&client.own, "http://inside.example/"));
    snprintf(long_url, sizeof long_url, "https://example.com/%0492d", 1);
    assert_null(webhook_url_fault(&client.own, long_url));
    strcat(long_url, "2");
    assert_non_null(webhook_url_fault(&client.own, long_url));
}

/* ---- a receiver ---- */

struct receiver {
    int listener;
    char url[64];
    const char *answer;
    char request[4096];
    pthread_t thread;
};

static void *serve(void *argument)
{
    struct receiver *receiver = argument;
    int client_fd = accept(receiver->listener, NULL, NULL);
    size_t length = 0;
    while (!strstr(receiver->request, "\r\n\r\n{}")) {
        ssize_t got =
            recv(client_fd, receiver->request + length, sizeof receiver->request - 1 - length, 0);
        if (got <= 0)
            break;
        length += (size_t)got;
        receiver->request[length] = '\0';
    }
    send(client_fd, receiver->answer, strlen(receiver->answer), MSG_NOSIGNAL);
    close(client_fd);
    return NULL;
}

static enum webhook_outcome exchange(struct receiver *receiver, const char *answer,
                                     struct webhook_call *call)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *receiver = (struct receiver){.answer = answer};
    receiver->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(receiver->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(receiver->listener, 1), 0);
    getsockname(receiver->listener, (struct sockaddr *)&address, &size);
    snprintf(receiver->url, sizeof receiver->url, "http://127.0.0.1:%d/hook",
             ntohs(address.sin_port));
    assert_int_equal(pthread_create(&receiver->thread, NULL, serve, receiver), 0);
    enum webhook_outcome outcome = post(receiver->url, NULL, call);
    pthread_join(receiver->thread, NULL);
    close(receiver->listener);
    return outcome;
}

static void test_request_has_the_headers_of_the_specification(void **state)
{
    struct receiver receiver;
    struct webhook_call call;
    (void)state;
    allow("127.0.0.0/8");
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    assert_int_equal(exchange(&receiver, "HTTP/1.1 204 No Content\r\n\r\n", &call),
                     WEBHOOK_OUTCOME_OK);
    unsetenv("http_proxy");
    assert_int_equal(call.status, 204);
    assert_non_null(strstr(receiver.request, "POST /hook HTTP/1.1\r\n"));
    assert_non_null(strstr(receiver.request, "\r\nwebhook-id: evt_0_1\r\n"));
    assert_non_null(strstr(receiver.request, "\r\nwebhook-timestamp: 1795204800\r\n"));
    assert_non_null(strstr(receiver.request, "\r\nwebhook-signature: v1,"));
    assert_non_null(strstr(receiver.request, "\r\nContent-Type: application/cloudevents+json\r\n"));
    assert_null(strstr(receiver.request, "Expect:"));
    assert_null(strstr(receiver.request, SECRET));
}

static void test_settings_choose_type_and_headers(void **state)
{
    struct receiver receiver;
    struct webhook_call call;
    (void)state;
    allow("127.0.0.0/8");
    webhook.settings.cloudevents = false;
    assert_null(webhook_header_add(webhook.settings.headers, "X-Api-Key", "k 1"));
    assert_null(webhook_header_add(webhook.settings.headers, "Authorization", "Basic dTpw"));
    assert_int_equal(exchange(&receiver, "HTTP/1.1 204 No Content\r\n\r\n", &call),
                     WEBHOOK_OUTCOME_OK);
    webhook.settings.cloudevents = true;
    webhook.settings.headers[0] = '\0';
    assert_non_null(strstr(receiver.request, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(receiver.request, "\r\nX-Api-Key: k 1\r\n"));
    assert_non_null(strstr(receiver.request, "\r\nAuthorization: Basic dTpw\r\n"));
}

static void test_answers_are_judged_by_their_status(void **state)
{
    static const struct {
        const char *answer;
        unsigned status;
        enum webhook_outcome outcome;
        unsigned retry_after_s;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, WEBHOOK_OUTCOME_OK, 0},
        {"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
         302, WEBHOOK_OUTCOME_FAILED, 0},
        {"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", 410, WEBHOOK_OUTCOME_DISABLED, 0},
        {"HTTP/1.1 429 Slow\r\nRETRY-AFTER:  7 \r\nContent-Length: 0\r\n\r\n", 429,
         WEBHOOK_OUTCOME_FAILED, 7},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 0, WEBHOOK_OUTCOME_FAILED, 0},
        {"nonsense\r\n\r\n", 0, WEBHOOK_OUTCOME_FAILED, 0},
        {"", 0, WEBHOOK_OUTCOME_FAILED, 0},
    };
    struct receiver receiver;
    struct webhook_call call;
    (void)state;
    allow("127.0.0.0/8");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(exchange(&receiver, rows[i].answer, &call), rows[i].outcome);
        assert_int_equal(call.status, rows[i].status);
        assert_int_equal(call.retry_after_s, rows[i].retry_after_s);
    }
}

static void test_long_answer_is_cut_and_made_printable(void **state)
{
    static char answer[20000];
    struct receiver receiver;
    struct webhook_call call;
    (void)state;
    allow("127.0.0.0/8");
    int length = sprintf(answer, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nno\n\x01'");
    memset(answer + length, 'x', sizeof answer - 1 - (size_t)length);
    assert_int_equal(exchange(&receiver, answer, &call), WEBHOOK_OUTCOME_OK);
    assert_int_equal(strlen(call.answer), WEBHOOK_ANSWER_SIZE - 1);
    assert_memory_equal(call.answer, "no  'xxx", 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signature_is_that_of_the_specification),
        cmocka_unit_test(test_key_of_32_bytes_loses_its_padding),
        cmocka_unit_test(test_secrets_differ_and_sign),
        cmocka_unit_test(test_retry_after_is_seconds_or_a_date),
        cmocka_unit_test(test_waits_stay_short_for_an_hour),
        cmocka_unit_test(test_headers_that_are_not_the_operators_are_refused),
        cmocka_unit_test(test_address_that_is_not_public_is_never_connected_to),
        cmocka_unit_test(test_url_of_such_an_address_is_refused_at_once),
        cmocka_unit_test(test_name_is_judged_by_the_address_of_its_last_look_up),
        cmocka_unit_test(test_name_with_one_allowed_address_tells_both),
        cmocka_unit_test(test_public_addresses_need_tls_and_own_networks_do_not),
        cmocka_unit_test(test_urls_are_checked),
        cmocka_unit_test(test_request_has_the_headers_of_the_specification),
        cmocka_unit_test(test_settings_choose_type_and_headers),
        cmocka_unit_test(test_answers_are_judged_by_their_status),
        cmocka_unit_test(test_long_answer_is_cut_and_made_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
