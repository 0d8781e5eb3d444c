/* Sentinels, played by threads: one that is dead, one that stands still, one that has not heard of
 * the present master, one that does not know the name. The master is the tests' real server. */
#include "lua/test_server.h"

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/url.h"
#include "lua/redis.h"

enum { ANSWER_SIZE = 320, FAKES_MAX = 3 };

/* Sends its answers in turn to whatever comes, on each connection from the first on. */
struct fake {
    int listener, port;
    pthread_t thread;
    const char *answers[2];
    _Atomic int connections;
};

static void serve(struct fake *fake, int client)
{
    char bytes[1024];
    for (size_t i = 0; recv(client, bytes, sizeof bytes, 0) > 0; i++)
        if (i < 2 && fake->answers[i])
            send(client, fake->answers[i], strlen(fake->answers[i]), MSG_NOSIGNAL);
    close(client);
}

static void *run(void *argument)
{
    struct fake *fake = argument;
    for (int client; (client = accept(fake->listener, NULL, NULL)) >= 0;) {
        fake->connections++;
        serve(fake, client);
    }
    return NULL;
}

static void start(struct fake *fake, const char *first, const char *second)
{
    *fake = (struct fake){.answers = {first, second}};
    fake->listener = listen_anywhere(&fake->port);
    assert_int_equal(pthread_create(&fake->thread, NULL, run, fake), 0);
}

static void fake_stop(struct fake *fake)
{
    shutdown(fake->listener, SHUT_RDWR);
    pthread_join(fake->thread, NULL);
    close(fake->listener);
}

static struct url server(void)
{
    struct url url;
    char error[URL_ERROR_SIZE];
    assert_true(url_parse(redis_server_url(), "redis", &url, error, sizeof error));
    return url;
}

/* What a sentinel says of a master there. */
static void name_server(char out[ANSWER_SIZE], const char *host, unsigned port)
{
    char number[12];
    snprintf(number, sizeof number, "%u", port);
    snprintf(out, ANSWER_SIZE, "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(host), host,
             strlen(number), number);
}

static struct redis *open_at(const struct fake *fakes, size_t count, int timeout_ms)
{
    char text[512], error[URL_ERROR_SIZE];
    const struct url url = server();
    int used = snprintf(text, sizeof text, "redis+sentinel://:%s@", url.password);
    for (size_t i = 0; i < count; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s127.0.0.1:%d",
                         i > 0 ? "," : "", fakes[i].port);
    snprintf(text + used, sizeof text - (size_t)used, "/shop/0");
    struct redis *redis = redis_open(text, timeout_ms, error, sizeof error);
    if (!redis)
        fail_msg("%s", error);
    return redis;
}

static void test_the_named_master_is_found(void **state)
{
    (void)state;
    struct fake fake;
    char answer[ANSWER_SIZE], place[URL_PLACE_SIZE];
    const struct url url = server();
    name_server(answer, url.servers[0].host, url.servers[0].port);
    start(&fake, answer, NULL);
    struct redis *redis = open_at(&fake, 1, 2000);
    snprintf(place, sizeof place, "127.0.0.1:%d", fake.port);
    assert_string_equal(redis_place(redis), place);
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
    url_place(redis_server_url(), "redis", place);
    assert_string_equal(redis_place(redis), place);
    assert_int_equal(fake.connections, 1);
    redis_drop(redis); /* whoever connects again asks again */
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
    assert_int_equal(fake.connections, 2);
    redis_close(&redis);
    fake_stop(&fake);
}

static void test_other_sentinels_are_passed_over_and_the_good_one_kept(void **state)
{
    (void)state;
    struct fake fakes[FAKES_MAX];
    char answer[ANSWER_SIZE];
    const struct url url = server();
    name_server(answer, url.servers[0].host, url.servers[0].port);
    start(&fakes[0], "*-1\r\n", NULL); /* it knows no such master */
    start(&fakes[1], NULL, NULL);      /* it says nothing */
    start(&fakes[2], answer, NULL);
    struct redis *redis = open_at(fakes, FAKES_MAX, 9000);
    int64_t began_ms = clock_now_ms();
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
    assert_true(clock_now_ms() - began_ms < 9000);
    redis_drop(redis);
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
    assert_int_equal(fakes[0].connections, 1);
    assert_int_equal(fakes[1].connections, 1);
    assert_int_equal(fakes[2].connections, 2);
    redis_close(&redis);
    for (int i = 0; i < FAKES_MAX; i++)
        fake_stop(&fakes[i]);
}

static void test_server_that_is_no_master_is_passed_over(void **state)
{
    (void)state;
    struct fake fakes[2], replica;
    char stale[ANSWER_SIZE], answer[ANSWER_SIZE];
    const struct url url = server();
    const char *welcome = "+OK\r\n*2\r\n$4\r\nrole\r\n$7\r\nreplica\r\n";
    start(&replica, welcome, NULL); /* to AUTH and HELLO */
    if (url.password[0] == '\0')
        replica.answers[0] = strchr(welcome, '\n') + 1;
    name_server(stale, "127.0.0.1", (unsigned)replica.port);
    name_server(answer, url.servers[0].host, url.servers[0].port);
    start(&fakes[0], stale, NULL);
    start(&fakes[1], answer, NULL);
    struct redis *redis = open_at(fakes, 1, 2000);
    assert_int_equal(redis_ping(redis), REDIS_FAILED);
    assert_non_null(strstr(redis_error(redis), "no master"));
    redis_close(&redis);
    redis = open_at(fakes, 2, 2000);
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
    assert_int_equal(replica.connections, 2);
    redis_close(&redis);
    fake_stop(&fakes[0]);
    fake_stop(&fakes[1]);
    fake_stop(&replica);
}

/* A master that is cut off with its sentinel keeps saying that it is one, and refuses writes. */
static void test_the_sentinel_of_a_master_that_refuses_writes_is_not_asked_again(void **state)
{
    (void)state;
    struct fake fakes[2], old;
    char stale[ANSWER_SIZE], answer[ANSWER_SIZE], refusal[ANSWER_SIZE], place[URL_PLACE_SIZE];
    const struct url url = server();
    const char *role = "*2\r\n$4\r\nrole\r\n$6\r\nmaster\r\n";
    const char *refuses = "-NOREPLICAS Not enough good replicas to write.\r\n";
    snprintf(refusal, sizeof refusal, "%s%s", url.password[0] != '\0' ? "+OK\r\n" : "", role);
    start(&old, refusal, refuses); /* to AUTH and HELLO, then to PUBLISH */
    name_server(stale, "127.0.0.1", (unsigned)old.port);
    name_server(answer, url.servers[0].host, url.servers[0].port);
    start(&fakes[0], stale, NULL);
    start(&fakes[1], answer, NULL);
    struct redis *redis = open_at(fakes, 2, 9000);
    assert_int_equal(redis_publish(redis, "news", "1"), REDIS_FAILED);
    assert_non_null(strstr(redis_error(redis), "NOREPLICAS"));
    enum redis_result result = REDIS_FAILED;
    for (int64_t until_ms = clock_now_ms() + 10000;
         result != REDIS_ANSWERED && clock_now_ms() < until_ms;)
        result = redis_publish(redis, "news", "2"); /* at first the delay lasts */
    assert_int_equal(result, REDIS_ANSWERED);
    url_place(redis_server_url(), "redis", place);
    assert_string_equal(redis_place(redis), place);
    assert_int_equal(fakes[0].connections, 1);
    assert_int_equal(old.connections, 1);
    redis_close(&redis);
    fake_stop(&fakes[0]);
    fake_stop(&fakes[1]);
    fake_stop(&old);
}

static void test_odd_answers_are_no_master(void **state)
{
    (void)state;
    static const char *const answers[] = {
        ":1\r\n",
        "$3\r\nabc\r\n",
        "*1\r\n$9\r\n127.0.0.1\r\n",
        "*2\r\n$9\r\n127.0.0.1\r\n:1\r\n",
        "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n0\r\n",
        "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n99999\r\n",
        "*2\r\n$9\r\n127.0.0.1\r\n$6\r\n100000\r\n",
        "*2\r\n$0\r\n\r\n$1\r\n1\r\n",
        "-NOAUTH Authentication required.\r\n",
        "what\r\n",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct fake fake;
        start(&fake, answers[i], NULL);
        struct redis *redis = open_at(&fake, 1, 2000);
        assert_int_equal(redis_ping(redis), REDIS_FAILED);
        assert_string_not_equal(redis_error(redis), "");
        assert_int_equal(redis_fault(redis)->count, 1);
        redis_close(&redis);
        fake_stop(&fake);
    }
}

static void test_all_sentinels_dead_fails_in_time(void **state)
{
    (void)state;
    struct fake fakes[FAKES_MAX];
    for (int i = 0; i < FAKES_MAX; i++)
        start(&fakes[i], NULL, NULL); /* the kernel accepts, and nobody answers */
    struct redis *redis = open_at(fakes, FAKES_MAX, 300);
    int64_t began_ms = clock_now_ms();
    assert_int_equal(redis_connect(redis), REDIS_FAILED);
    assert_int_in_range(clock_now_ms() - began_ms, 200, 20000);
    assert_int_equal(redis_connect(redis), REDIS_FAILED); /* at once: the delay lasts */
    redis_close(&redis);
    for (int i = 0; i < FAKES_MAX; i++)
        fake_stop(&fakes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_named_master_is_found),
        cmocka_unit_test(test_other_sentinels_are_passed_over_and_the_good_one_kept),
        cmocka_unit_test(test_server_that_is_no_master_is_passed_over),
        cmocka_unit_test(test_the_sentinel_of_a_master_that_refuses_writes_is_not_asked_again),
        cmocka_unit_test(test_odd_answers_are_no_master),
        cmocka_unit_test(test_all_sentinels_dead_fails_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
