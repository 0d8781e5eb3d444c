/* The Redis connection: urls, credentials, time-outs, back-off, and messages between processes. */
#include "lua/test_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "lua/command.h"

/* How long a test waits for what is sure to come: a busy machine may take its time. */
enum { PATIENCE_MS = 30000 };

static struct redis *open_url(const char *url, int timeout_ms)
{
    char error[128];
    struct redis *redis = redis_open(url, timeout_ms, error, sizeof error);
    if (!redis)
        fail_msg("%s: %s", url, error);
    return redis;
}

/* Returns host:port[/db] of the server. */
static const char *server_place(void)
{
    const char *url = redis_server_url();
    const char *at = strrchr(url, '@');
    return at ? at + 1 : url + strlen("redis://");
}

/* The server's url with another database. */
static void database_url(int database, char *url_out, size_t size)
{
    const char *url = redis_server_url();
    int length = (int)strcspn(server_place(), "/") + (int)(server_place() - url);
    snprintf(url_out, size, "%.*s/%d", length, url, database);
}

static struct redis *open_as(const char *credentials)
{
    char url[256];
    snprintf(url, sizeof url, "redis://%s@%s", credentials, server_place());
    return open_url(url, PATIENCE_MS);
}

static void sleep_ms(int ms)
{
    clock_sleep_ns(ms * CLOCK_NS_PER_MS);
}

static void refuse_url(const char *url)
{
    char error[128] = "";
    struct redis *redis = redis_open(url, 100, error, sizeof error);
    bool accepted = redis != NULL;
    redis_close(&redis);
    if (accepted)
        fail_msg("accepted \"%s\"", url);
    assert_non_null(strstr(error, "redis://"));
}

/* ---- urls ---- */

static void test_urls_of_the_form_are_taken(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "redis://localhost",
        "redis://127.0.0.1:6379",
        "redis://127.0.0.1:6379/",
        "redis://127.0.0.1:6379/15",
        "REDIS://h/2",
        "redis://user:secret@h:1/0",
        "redis://:secret@h",
        "redis://u:p%40%3a%2F@h",
        "redis://[::1]:6379/1",
        "redis://[::1]",
        "redis://h:65535",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct redis *redis = open_url(urls[i], 100);
        assert_false(redis_connected(redis));
        assert_string_equal(redis_error(redis), "");
        redis_close(&redis);
        assert_null(redis);
    }
}

static void test_other_urls_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "",
        "localhost",
        "http://h",
        "redis:/h",
        "redis://",
        "redis://:6379",
        "redis://h:",
        "redis://h:x",
        "redis://h:65536",
        "redis://h:-1",
        "redis://h:1:2",
        "redis://h:63 79",
        "redis://h/x",
        "redis://h/1x",
        "redis://h/-1",
        "redis://h/99999999999999999999",
        "redis://u:%@h",
        "redis://u:%4@h",
        "redis://u:%zz@h",
        "redis://u:%00@h",
        "redis://%-1:p@h",
        "redis://[::1",
        "redis://[]:1",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        refuse_url(urls[i]);
}

static void test_url_too_long_is_refused(void **state)
{
    (void)state;
    char url[600];
    snprintf(url, sizeof url, "redis://%0300d:1", 0);
    refuse_url(url);
    snprintf(url, sizeof url, "redis://u:%0300d@h", 0);
    refuse_url(url);
    snprintf(url, sizeof url, "redis://%0200d:p@h", 0);
    refuse_url(url);
}

static void test_text_after_an_ipv6_host_is_refused(void **state)
{
    (void)state;
    refuse_url("redis://[::1]junk");
    refuse_url("redis://[::1]6379");
}

static void test_port_zero_is_refused(void **state)
{
    (void)state;
    refuse_url("redis://127.0.0.1:0");
}

static void test_url_leads_to_its_database(void **state)
{
    (void)state;
    char url[256], command[] = "CLIENT INFO";
    database_url(3, url, sizeof url);
    struct redis *redis = open_url(url, PATIENCE_MS);
    redisReply *reply = redis_server_send(redis, command);
    assert_non_null(strstr(reply->str, " db=3 "));
    freeReplyObject(reply);
    redis_close(&redis);
}

static void test_database_that_is_not_there_fails_the_connect(void **state)
{
    (void)state;
    char url[256];
    database_url(100000, url, sizeof url);
    struct redis *redis = open_url(url, PATIENCE_MS);
    assert_int_equal(redis_connect(redis), REDIS_FAILED);
    assert_false(redis_connected(redis));
    assert_non_null(strstr(redis_error(redis), "SELECT: "));
    redis_close(&redis);
}

/* ---- credentials ---- */

static void test_acl_user_with_an_encoded_password_is_let_in(void **state)
{
    (void)state;
    redis_server_do("ACL SETUSER unit on >p@ss/w:rd%% ~* &* +@all");
    struct redis *redis = open_as("unit:p%40ss%2Fw%3ard%25");
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
    redis_close(&redis);
    redis = open_as("unit:other");
    assert_int_equal(redis_ping(redis), REDIS_FAILED);
    assert_non_null(strstr(redis_error(redis), "AUTH: WRONGPASS"));
    assert_false(redis_connected(redis));
    redis_close(&redis);
}

/* The stack's servers want one. */
static void test_password_alone_is_that_of_the_default_user(void **state)
{
    (void)state;
    char url[256];
    assert_int_equal(strncmp(redis_server_url(), "redis://:", 9), 0);
    struct redis *with = redis_server_open(PATIENCE_MS);
    assert_int_equal(redis_ping(with), REDIS_ANSWERED);
    snprintf(url, sizeof url, "redis://%s", server_place());
    struct redis *without = open_url(url, PATIENCE_MS);
    assert_int_equal(redis_ping(without), REDIS_FAILED);
    assert_non_null(strstr(redis_error(without), "NOAUTH"));
    redis_close(&with);
    redis_close(&without);
}

static void test_refused_command_is_failed_and_keeps_the_connection(void **state)
{
    (void)state;
    redis_server_do("ACL SETUSER unit on >x +select +ping -publish");
    struct redis *redis = open_as("unit:x");
    assert_int_equal(redis_publish(redis, "channel", "text"), REDIS_FAILED);
    assert_non_null(strstr(redis_error(redis), "NOPERM"));
    assert_true(redis_connected(redis));
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
    assert_int_equal(redis_stats(redis).connects, 1);
    redis_close(&redis);
}

/* ---- what can happen to a connection ---- */

/* Opens a client of a port on which no server listens; it is free when the socket is closed. */
static struct redis *open_nowhere(int *socket_out)
{
    char url[64];
    int port = 0;
    *socket_out = bind_anywhere(&port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    return open_url(url, 500);
}

static void test_failed_connects_back_off(void **state)
{
    (void)state;
    int nobody;
    struct redis *redis = open_nowhere(&nobody);
    int64_t start_ms = clock_now_ms(), until_ms = start_ms + PATIENCE_MS;
    while (redis_stats(redis).failures < 5 && clock_now_ms() < until_ms) {
        assert_int_equal(redis_connect(redis), REDIS_FAILED);
        sleep_ms(1);
    }
    /* The calls between two tries fail without one. The tries come at 0, 10..20, 30..60, 70..140
     * and 150..300 ms, or later. */
    assert_int_equal(redis_stats(redis).failures, 5);
    assert_true(clock_now_ms() - start_ms >= 150);
    assert_int_equal(redis_stats(redis).connects, 0);
    redis_close(&redis);
    close(nobody);
}

static void test_command_that_was_never_sent_is_failed(void **state)
{
    (void)state;
    int nobody;
    struct redis *redis = open_nowhere(&nobody);
    assert_int_equal(redis_ping(redis), REDIS_FAILED);
    assert_int_equal(redis_publish(redis, "channel", "text"), REDIS_FAILED);
    assert_int_equal(redis_subscribe(redis, "channel"), REDIS_FAILED);
    assert_string_not_equal(redis_error(redis), "");
    redis_close(&redis);
    close(nobody);
}

static void test_lost_connection_is_unknown_and_made_again_at_once(void **state)
{
    (void)state;
    struct redis *redis = redis_server_open(PATIENCE_MS);
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
    redis_server_do("CLIENT KILL TYPE normal");
    assert_int_equal(redis_ping(redis), REDIS_UNKNOWN);
    assert_false(redis_connected(redis));
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
    assert_int_equal(redis_stats(redis).connects, 2);
    assert_int_equal(redis_stats(redis).failures, 1);
    redis_close(&redis);
}

static void test_no_reply_in_time_is_unknown(void **state)
{
    (void)state;
    struct fake_redis fake;
    struct redis *redis = fake_redis_open(&fake, NULL, PATIENCE_MS);
    assert_int_equal(redis_connect(redis), REDIS_ANSWERED);
    redis_set_timeout(redis, 60);
    int64_t start_ms = clock_now_ms();
    assert_int_equal(redis_ping(redis), REDIS_UNKNOWN);
    assert_int_in_range(clock_now_ms() - start_ms, 50, PATIENCE_MS);
    assert_string_equal(redis_error(redis), "no reply in time");
    assert_false(redis_connected(redis));
    fake_redis_close(&fake, &redis);
}

/* Sends a reply whose end does not come, a byte now and then, until the client hangs up. */
static void *serve_by_bytes(void *argument)
{
    enum { BYTES_MAX = 1000 };
    struct fake_redis *fake = argument;
    char bytes[256];
    int client = accept(fake->listener, NULL, NULL);
    bool open = recv(client, bytes, sizeof bytes, 0) > 0;
    send(client, fake->welcome, strlen(fake->welcome), MSG_NOSIGNAL);
    open = open && recv(client, bytes, sizeof bytes, 0) > 0;
    for (int sent = 0; open && sent < BYTES_MAX; sent++) {
        open = send(client, sent == 0 ? "+" : "x", 1, MSG_NOSIGNAL) == 1;
        sleep_ms(10);
    }
    send(client, "\r\n", 2, MSG_NOSIGNAL);
    close(client);
    return NULL;
}

static void test_reply_in_parts_has_no_more_time(void **state)
{
    (void)state;
    char url[64];
    int port = 0;
    struct fake_redis fake = {.welcome = "+OK\r\n-ERR unknown command 'HELLO'\r\n",
                              .listener = listen_anywhere(&port)};
    assert_int_equal(pthread_create(&fake.thread, NULL, serve_by_bytes, &fake), 0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/1", port);
    struct redis *redis = open_url(url, PATIENCE_MS);
    assert_int_equal(redis_connect(redis), REDIS_ANSWERED);
    redis_set_timeout(redis, 200);
    assert_int_equal(redis_ping(redis), REDIS_UNKNOWN);
    assert_string_equal(redis_error(redis), "no reply in time");
    fake_redis_close(&fake, &redis);
}

static void test_server_that_never_answers_fails_the_connect(void **state)
{
    (void)state;
    char url[64];
    int port = 0;
    int listener = listen_anywhere(&port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    struct redis *redis = open_url(url, 60);
    /* The kernel completes the connect for a listener that never accepts; the handshake then times
     * out. No command of the caller was sent, so this is a failure and not an unknown outcome. */
    int64_t start_ms = clock_now_ms();
    assert_int_equal(redis_ping(redis), REDIS_FAILED);
    assert_int_in_range(clock_now_ms() - start_ms, 50, PATIENCE_MS);
    assert_false(redis_connected(redis));
    redis_close(&redis);
    close(listener);
}

/* A proxy may have no SELECT: database 0 is the one of every new connection. */
static void test_database_0_is_not_selected(void **state)
{
    (void)state;
    char url[64], error[128];
    int port = 0;
    struct fake_redis fake = {.welcome = "-ERR unknown command 'HELLO'\r\n", .answer = "+PONG\r\n"};
    fake.listener = listen_anywhere(&port);
    assert_int_equal(pthread_create(&fake.thread, NULL, fake_redis_serve, &fake), 0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/0", port);
    struct redis *redis = redis_open(url, PATIENCE_MS, error, sizeof error);
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
    fake_redis_close(&fake, &redis);
}

/* ---- a server of another kind than the URL says ---- */

#define HELLO(mode) "+OK\r\n*2\r\n$4\r\nmode\r\n" mode "\r\n"

static void refuse_welcome(const char *welcome, const char *words)
{
    struct fake_redis fake;
    struct redis *redis = fake_redis_welcome(&fake, welcome, NULL, PATIENCE_MS);
    assert_int_equal(redis_ping(redis), REDIS_FAILED);
    if (!strstr(redis_error(redis), words))
        fail_msg("\"%s\" has not: %s", redis_error(redis), words);
    assert_false(redis_connected(redis));
    fake_redis_close(&fake, &redis);
}

static void test_server_of_another_kind_is_refused(void **state)
{
    (void)state;
    refuse_welcome(HELLO("$7\r\ncluster"), "begins with redis+cluster");
    refuse_welcome(HELLO("$8\r\nsentinel"), "redis+sentinel://");
    refuse_welcome("-ERR unknown command 'SELECT'\r\n*2\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n",
                   "redis+sentinel://");
    refuse_welcome("\x15\x03\x01", "begins with rediss");
    refuse_welcome("", "begins with rediss");
    refuse_welcome("+OK\r\n-NOAUTH Authentication required.\r\n", "NOAUTH");
}

/* Old servers, and those that let a user ask little, do not tell their kind. */
static void test_server_of_an_unknown_kind_is_taken(void **state)
{
    (void)state;
    static const char *const welcomes[] = {
        "+OK\r\n-NOPERM this user has no permissions\r\n",
        "+OK\r\n-ERR unknown command\r\n",
        "+OK\r\n*0\r\n",
        "+OK\r\n*1\r\n$4\r\nmode\r\n",
        "+OK\r\n*2\r\n$4\r\nmode\r\n:1\r\n",
        "+OK\r\n*2\r\n:1\r\n$7\r\ncluster\r\n",
        "+OK\r\n:1\r\n",
        HELLO("$10\r\nstandalone"),
    };
    for (size_t i = 0; i < sizeof welcomes / sizeof *welcomes; i++) {
        struct fake_redis fake;
        struct redis *redis = fake_redis_welcome(&fake, welcomes[i], NULL, PATIENCE_MS);
        assert_int_equal(redis_connect(redis), REDIS_ANSWERED);
        fake_redis_close(&fake, &redis);
    }
}

/* ---- a server that takes no writes ---- */

static int be_primary(void **state)
{
    (void)state;
    redis_server_do("REPLICAOF NO ONE");
    return 0;
}

/* The name of a primary that became a replica may lead to the new primary by now. */
static void test_replica_is_left_at_the_next_use(void **state)
{
    (void)state;
    const char *set[] = {"SET", "unit", "1"};
    struct command commands[] = {{.argc = 3, .argv = {set[0], set[1], set[2]}},
                                 {.argc = 1, .argv = {"PING"}}};
    struct redis *redis = redis_server_open(PATIENCE_MS);
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
    redis_server_do("REPLICAOF 127.0.0.1 1");
    command_run(redis, commands, 2);
    assert_int_equal(commands[0].result, REDIS_FAILED);   /* refused: certainly not done */
    assert_int_equal(commands[1].result, REDIS_ANSWERED); /* the replies behind it still count */
    command_clear(commands, 2);
    assert_non_null(strstr(redis_error(redis), "READONLY"));
    assert_false(redis_connected(redis));
    redis_server_do("REPLICAOF NO ONE");
    sleep_ms(25); /* the first delay */
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
    assert_int_equal(redis_stats(redis).connects, 2);
    redis_close(&redis);
}

static void leave_after(const char *answer, bool left)
{
    struct fake_redis fake;
    struct redis *redis = fake_redis_open(&fake, answer, PATIENCE_MS);
    assert_int_equal(redis_ping(redis), REDIS_FAILED);
    assert_int_equal(redis_connected(redis), !left);
    fake_redis_close(&fake, &redis);
}

static void test_refusals_of_any_write_leave_the_server(void **state)
{
    (void)state;
    leave_after("-LOADING Redis is loading the dataset in memory\r\n", true);
    leave_after("-MASTERDOWN Link with MASTER is down\r\n", true);
    leave_after("-MISCONF Errors writing to the AOF file\r\n", true);
    leave_after("-NOREPLICAS Not enough good replicas to write.\r\n", true);
    leave_after("-ERR Error running script (call to f_1): @user_script:1: "
                "-READONLY You can't write against a read only replica.\r\n",
                true);
    leave_after("-OOM command not allowed when used memory > 'maxmemory'.\r\n", false);
    leave_after("-ERR unknown command\r\n", false);
}

/* ---- messages ---- */

static struct redis *open_subscriber(void)
{
    struct redis *redis = redis_server_open(PATIENCE_MS);
    assert_int_equal(redis_subscribe(redis, "unit"), REDIS_ANSWERED);
    return redis;
}

static void test_messages_arrive_in_order(void **state)
{
    (void)state;
    char message[16] = "old";
    struct redis *publisher = redis_server_open(PATIENCE_MS);
    struct redis *redis = open_subscriber();
    assert_int_equal(redis_server_message(redis, 10, message, sizeof message), REDIS_FAILED);
    assert_string_equal(message, "");
    assert_int_equal(redis_publish(publisher, "unit", "one"), REDIS_ANSWERED);
    assert_int_equal(redis_publish(publisher, "other", "not for us"), REDIS_ANSWERED);
    assert_int_equal(redis_publish(publisher, "unit", "two"), REDIS_ANSWERED);
    assert_int_equal(redis_server_message(redis, PATIENCE_MS, message, sizeof message),
                     REDIS_ANSWERED);
    assert_string_equal(message, "one");
    assert_int_equal(redis_server_message(redis, PATIENCE_MS, message, sizeof message),
                     REDIS_ANSWERED);
    assert_string_equal(message, "two");
    assert_int_equal(redis_server_message(redis, 10, message, sizeof message), REDIS_FAILED);
    redis_close(&redis);
    redis_close(&publisher);
}

static void test_waiting_longer_than_the_timeout_keeps_the_connection(void **state)
{
    (void)state;
    char message[16];
    struct redis *redis = redis_server_open(PATIENCE_MS);
    assert_int_equal(redis_subscribe(redis, "unit"), REDIS_ANSWERED);
    redis_set_timeout(redis, 20); /* shorter than the wait for a message */
    assert_int_equal(redis_server_message(redis, 60, message, sizeof message), REDIS_FAILED);
    assert_true(redis_connected(redis));
    redis_server_do("PUBLISH unit late");
    assert_int_equal(redis_server_message(redis, PATIENCE_MS, message, sizeof message),
                     REDIS_ANSWERED);
    assert_string_equal(message, "late");
    redis_close(&redis);
}

static void test_long_message_is_cut(void **state)
{
    (void)state;
    char message[5];
    struct redis *redis = open_subscriber();
    redis_server_do("PUBLISH unit abcdefgh");
    assert_int_equal(redis_server_message(redis, PATIENCE_MS, message, sizeof message),
                     REDIS_ANSWERED);
    assert_string_equal(message, "abcd");
    redis_close(&redis);
}

/* What the fake sends in one piece after it has confirmed the SELECT. */
static void test_event_without_its_texts_is_no_message(void **state)
{
    (void)state;
    struct fake_redis fake;
    char channel[8] = "none", message[8] = "none";
    struct redis *redis = fake_redis_open(&fake,
                                          "*3\r\n$7\r\nmessage\r\n$-1\r\n$1\r\nm\r\n"
                                          "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n:7\r\n"
                                          "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
                                          10000);
    assert_int_equal(redis_connect(redis), REDIS_ANSWERED);
    assert_true(redis_send_subscribe(redis, "c", false));
    struct pollfd poller = {.fd = redis_fd(redis), .events = POLLIN};
    assert_int_equal(poll(&poller, 1, PATIENCE_MS), 1);
    assert_true(redis_fill(redis));
    for (int i = 0; i < 2; i++)
        assert_int_equal(redis_next_event(redis, channel, sizeof channel, message, sizeof message),
                         REDIS_EVENT_OTHER);
    assert_string_equal(channel, "none");
    assert_int_equal(redis_next_event(redis, channel, sizeof channel, message, sizeof message),
                     REDIS_EVENT_MESSAGE);
    assert_string_equal(channel, "c");
    assert_string_equal(message, "m");
    fake_redis_close(&fake, &redis);
}

static void test_lost_subscription_is_unknown(void **state)
{
    (void)state;
    char message[16];
    struct redis *redis = open_subscriber();
    redis_server_do("CLIENT KILL TYPE pubsub");
    assert_int_equal(redis_server_message(redis, PATIENCE_MS, message, sizeof message),
                     REDIS_UNKNOWN);
    /* Once more: only a new SUBSCRIBE, never a silent reconnect, ends the unknown state. */
    assert_int_equal(redis_server_message(redis, PATIENCE_MS, message, sizeof message),
                     REDIS_UNKNOWN);
    assert_int_equal(redis_subscribe(redis, "unit"), REDIS_ANSWERED);
    redis_server_do("PUBLISH unit again");
    assert_int_equal(redis_server_message(redis, PATIENCE_MS, message, sizeof message),
                     REDIS_ANSWERED);
    assert_string_equal(message, "again");
    redis_close(&redis);
}

static int option(const struct redis *redis, int level, int name)
{
    int value = 0;
    socklen_t size = sizeof value;
    assert_int_equal(getsockopt(redis_fd(redis), level, name, &value, &size), 0);
    return value;
}

/* A host that loses its power closes nothing, and a subscriber sends nothing. */
static void test_host_that_is_gone_ends_a_subscription(void **state)
{
    (void)state;
    struct redis *redis = open_subscriber();
    assert_int_equal(option(redis, SOL_SOCKET, SO_KEEPALIVE), 1);
    int seconds =
        option(redis, IPPROTO_TCP, TCP_KEEPIDLE) +
        option(redis, IPPROTO_TCP, TCP_KEEPINTVL) * option(redis, IPPROTO_TCP, TCP_KEEPCNT);
    assert_int_equal(seconds, 20);
    redis_close(&redis);
}

static int forget_user(void **state)
{
    (void)state;
    redis_server_do("ACL DELUSER unit");
    return 0;
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls_of_the_form_are_taken),
        cmocka_unit_test(test_other_urls_are_refused),
        cmocka_unit_test(test_url_too_long_is_refused),
        cmocka_unit_test(test_text_after_an_ipv6_host_is_refused),
        cmocka_unit_test(test_port_zero_is_refused),
        cmocka_unit_test(test_url_leads_to_its_database),
        cmocka_unit_test(test_database_that_is_not_there_fails_the_connect),
        cmocka_unit_test_teardown(test_acl_user_with_an_encoded_password_is_let_in, forget_user),
        cmocka_unit_test(test_password_alone_is_that_of_the_default_user),
        cmocka_unit_test_teardown(test_refused_command_is_failed_and_keeps_the_connection,
                                  forget_user),
        cmocka_unit_test(test_failed_connects_back_off),
        cmocka_unit_test(test_command_that_was_never_sent_is_failed),
        cmocka_unit_test(test_lost_connection_is_unknown_and_made_again_at_once),
        cmocka_unit_test(test_no_reply_in_time_is_unknown),
        cmocka_unit_test(test_reply_in_parts_has_no_more_time),
        cmocka_unit_test(test_server_that_never_answers_fails_the_connect),
        cmocka_unit_test(test_database_0_is_not_selected),
        cmocka_unit_test(test_server_of_another_kind_is_refused),
        cmocka_unit_test(test_server_of_an_unknown_kind_is_taken),
        cmocka_unit_test_teardown(test_replica_is_left_at_the_next_use, be_primary),
        cmocka_unit_test(test_refusals_of_any_write_leave_the_server),
        cmocka_unit_test(test_messages_arrive_in_order),
        cmocka_unit_test(test_waiting_longer_than_the_timeout_keeps_the_connection),
        cmocka_unit_test(test_long_message_is_cut),
        cmocka_unit_test(test_event_without_its_texts_is_no_message),
        cmocka_unit_test(test_host_that_is_gone_ends_a_subscription),
        cmocka_unit_test(test_lost_subscription_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
