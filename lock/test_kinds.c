/* What the single kinds of lock promise beyond one holder at a time: readers and writers, permits,
 * latches, several locks at once, versioned values, and many locks under one watchdog. */
#include "lock/test_support.h"

#include "lock/seclock_value.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static struct seclock_client *mine, *other;
static struct seclock_owner *owners[3]; /* of `mine` */
static char name[32];
static enum seclock_kind rw_kind; /* of readers and writers, in the test that runs */

static int begin(void **state)
{
    static int tests;
    const char *urls[] = {servers.redis, servers.mysql, servers.etcd[0] ? servers.etcd : NULL,
                          NULL};
    struct seclock_options options = SECLOCK_OPTIONS(.servers = urls, .prefix = servers.prefix,
                                                     .lease_ms = LEASE_MS, .poll_ms = POLL_MS);
    (void)state;
    rw_kind = SECLOCK_KIND_READ_WRITE;
    snprintf(name, sizeof name, "kind-%d", ++tests);
    if (seclock_open(&options, &mine) != SECLOCK_OK || seclock_open(&options, &other) != SECLOCK_OK)
        return -1;
    for (int i = 0; i < 3; i++)
        owners[i] = seclock_owner_new(mine);
    return 0;
}

/* A client whose test has failed half-way still has holds, so it must not be closed. */
static int end(void **state)
{
    (void)state;
    if (stats_of(mine).watched == 0)
        seclock_close(&mine);
    if (stats_of(other).watched == 0)
        seclock_close(&other);
    for (int i = 0; i < 3; i++)
        seclock_owner_free(&owners[i]);
    return 0;
}

static void give(struct seclock_handle **handle)
{
    assert_result(seclock_release(*handle), SECLOCK_OK);
    seclock_free(handle);
}

/* A call of seclock_acquire on a thread of its own. */
struct waiting {
    struct seclock_client *client;
    struct seclock_request request;
    pthread_t thread;
    enum seclock_result result;
    struct seclock_handle *handle;
    _Atomic bool done;
    int64_t ended_ms;
};

static void *wait_thread(void *argument)
{
    struct waiting *waiting = argument;
    waiting->result = seclock_acquire(waiting->client, &waiting->request, &waiting->handle);
    waiting->ended_ms = now_ms();
    waiting->done = true;
    return NULL;
}

static void wait_begin(struct waiting *waiting)
{
    uint64_t before = stats_of(waiting->client).waits;
    assert_int_equal(pthread_create(&waiting->thread, NULL, wait_thread, waiting), 0);
    wait_for(stats_of(waiting->client).waits > before);
    sleep_ms(20);
}

static void wait_end(struct waiting *waiting, enum seclock_result wanted)
{
    pthread_join(waiting->thread, NULL);
    assert_int_equal(waiting->result, wanted);
}

/* ---- readers and writers ---- */

static const enum seclock_kind rw_kinds[] = {SECLOCK_KIND_READ_WRITE, SECLOCK_KIND_ETCD};

/* A test without a state of its own is of the first kind. */
static void use_kind(void **state)
{
    if (*state)
        rw_kind = *(const enum seclock_kind *)*state;
    if (!kind_served(rw_kind))
        skip();
}

static struct seclock_request rw_request(const struct seclock_owner *owner, enum seclock_mode mode)
{
    return SECLOCK_REQUEST(.name = name, .kind = rw_kind, .mode = mode, .owner = owner);
}

static enum seclock_result rw_take(const struct seclock_owner *owner, enum seclock_mode mode,
                                   struct seclock_handle **out)
{
    struct seclock_request request = rw_request(owner, mode);
    return seclock_acquire(mine, &request, out);
}

static void test_readers_share(void **state)
{
    use_kind(state);
    struct seclock_handle *readers[3], *writer;
    struct seclock_status status = SECLOCK_STATUS();
    for (int i = 0; i < 3; i++)
        assert_result(rw_take(owners[i], SECLOCK_MODE_READ, &readers[i]), SECLOCK_OK);
    struct seclock_request request = rw_request(NULL, SECLOCK_MODE_WRITE);
    assert_result(seclock_acquire(other, &request, &writer), SECLOCK_BUSY);
    assert_result(seclock_status(other, rw_kind, name, &status), SECLOCK_OK);
    assert_true(status.held);
    assert_int_equal(status.mode, SECLOCK_MODE_READ);
    assert_int_equal(status.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_result(seclock_acquire(other, &request, &writer), SECLOCK_BUSY);
        give(&readers[i]);
    }
    assert_result(seclock_acquire(other, &request, &writer), SECLOCK_OK);
    assert_result(rw_take(owners[0], SECLOCK_MODE_READ, &readers[0]), SECLOCK_BUSY);
    assert_result(seclock_status(mine, rw_kind, name, &status), SECLOCK_OK);
    assert_int_equal(status.mode, SECLOCK_MODE_WRITE);
    give(&writer);
}

static void test_waiting_writer_keeps_new_readers_out(void **state)
{
    use_kind(state);
    struct seclock_handle *first, *again, *late;
    struct waiting writer = {.client = other, .request = rw_request(NULL, SECLOCK_MODE_WRITE)};
    writer.request.wait_ms = SECLOCK_FOREVER;
    assert_result(rw_take(owners[0], SECLOCK_MODE_READ, &first), SECLOCK_OK);
    wait_begin(&writer);
    assert_result(rw_take(owners[1], SECLOCK_MODE_READ, &late), SECLOCK_BUSY);
    assert_result(rw_take(owners[0], SECLOCK_MODE_READ, &again),
                  SECLOCK_OK); /* a reader may read once more */
    give(&first);
    sleep_ms(50);
    assert_false(writer.done);
    give(&again);
    wait_end(&writer, SECLOCK_OK);
    give(&writer.handle);
    assert_result(rw_take(owners[1], SECLOCK_MODE_READ, &late), SECLOCK_OK);
    give(&late);
}

static void test_writer_that_gives_up_lets_readers_in(void **state)
{
    use_kind(state);
    struct seclock_handle *first, *late, *writer;
    struct seclock_request request = rw_request(NULL, SECLOCK_MODE_WRITE);
    request.wait_ms = 100;
    assert_result(rw_take(owners[0], SECLOCK_MODE_READ, &first), SECLOCK_OK);
    assert_result(seclock_acquire(other, &request, &writer), SECLOCK_TIMEOUT);
    assert_result(rw_take(owners[1], SECLOCK_MODE_READ, &late), SECLOCK_OK);
    give(&first);
    give(&late);
}

static void test_readers_do_not_starve_a_writer(void **state)
{
    use_kind(state);
    struct seclock_handle *now, *next = NULL;
    struct waiting writer = {.client = other, .request = rw_request(NULL, SECLOCK_MODE_WRITE)};
    writer.request.wait_ms = SECLOCK_FOREVER;
    assert_result(rw_take(owners[0], SECLOCK_MODE_READ, &now), SECLOCK_OK);
    wait_begin(&writer);
    int64_t until_ms = now_ms() + 1000 + SLACK_MS;
    for (int i = 1; !writer.done && now_ms() < until_ms; i++) {
        /* a relay of readers: one begins before the other ends */
        enum seclock_result result = rw_take(owners[i % 2], SECLOCK_MODE_READ, &next);
        if (now)
            give(&now);
        now = result == SECLOCK_OK ? next : NULL;
        sleep_ms(5);
    }
    if (now)
        give(&now);
    wait_end(&writer, SECLOCK_OK);
    assert_true(writer.ended_ms < until_ms);
    give(&writer.handle);
}

static void test_writer_steps_down(void **state)
{
    use_kind(state);
    struct seclock_handle *writer, *reader, *second;
    assert_result(rw_take(owners[0], SECLOCK_MODE_WRITE, &writer), SECLOCK_OK);
    assert_result(rw_take(owners[0], SECLOCK_MODE_READ, &reader), SECLOCK_OK);
    assert_result(rw_take(owners[1], SECLOCK_MODE_READ, &second), SECLOCK_BUSY);
    give(&writer);
    assert_result(rw_take(owners[1], SECLOCK_MODE_READ, &second), SECLOCK_OK);
    assert_result(rw_take(owners[2], SECLOCK_MODE_WRITE, &writer), SECLOCK_BUSY);
    give(&reader);
    give(&second);
}

static void test_reader_that_would_write_is_refused(void **state)
{
    use_kind(state);
    struct seclock_handle *reader, *writer;
    struct seclock_request request = rw_request(owners[0], SECLOCK_MODE_WRITE);
    request.wait_ms = SECLOCK_FOREVER;
    assert_result(rw_take(owners[0], SECLOCK_MODE_READ, &reader), SECLOCK_OK);
    assert_result(seclock_acquire(mine, &request, &writer), SECLOCK_DEADLOCK);
    assert_null(writer);
    give(&reader);
    assert_result(seclock_acquire(mine, &request, &writer), SECLOCK_OK);
    give(&writer);
}

/* Each read hold has a lease of its own: a long lease does not prolong a short one, nor does a
 * short one end a long one, whose owner is still known to read. */
static void test_read_holds_end_by_themselves(void **state)
{
    use_kind(state);
    struct seclock_handle *longer, *shorter, *writer;
    struct seclock_status status = SECLOCK_STATUS();
    struct seclock_request request = rw_request(owners[0], SECLOCK_MODE_READ);
    request.fixed_lease = true;
    request.lease_ms = 3000;
    int64_t began_ms = now_ms();
    assert_result(seclock_acquire(mine, &request, &longer), SECLOCK_OK);
    request.owner = owners[1];
    request.lease_ms = 200;
    assert_result(acquire_in_time(mine, &request, &shorter), SECLOCK_OK);
    request = rw_request(NULL, SECLOCK_MODE_WRITE);
    request.wait_ms = PATIENCE_MS;
    sleep_ms(250);
    assert_result(seclock_status(other, rw_kind, name, &status), SECLOCK_OK);
    assert_true(status.held);
    assert_result(rw_take(owners[0], SECLOCK_MODE_WRITE, &writer), SECLOCK_DEADLOCK);
    assert_int_equal(seclock_state(shorter), SECLOCK_STATE_LOST);
    assert_result(seclock_release(shorter), SECLOCK_LOST);
    assert_result(seclock_acquire(other, &request, &writer), SECLOCK_OK);
    assert_int_in_range(now_ms() - began_ms, 2990, 3000 + POLL_MS + SLACK_MS);
    assert_result(seclock_release(longer), SECLOCK_LOST);
    seclock_free(&longer);
    seclock_free(&shorter);
    give(&writer);
}

static void test_break_frees_from_readers_too(void **state)
{
    use_kind(state);
    struct seclock_handle *reader, *writer;
    assert_result(rw_take(owners[0], SECLOCK_MODE_READ, &reader), SECLOCK_OK);
    assert_result(seclock_break(other, rw_kind, name), SECLOCK_OK);
    assert_result(rw_take(owners[1], SECLOCK_MODE_WRITE, &writer), SECLOCK_OK);
    assert_result(seclock_renew(reader), SECLOCK_LOST);
    seclock_free(&reader);
    give(&writer);
}

/* ---- the majority ---- */

/* A command to one of the majority lock's servers, its reply as a number. */
static int64_t red_number(int server, int argc, const char *a, const char *b, const char *c)
{
    char error[128];
    struct redis *redis = redis_open(servers.red[server], 2000, error, sizeof error);
    struct command command = {.argc = argc, .argv = {a, b, c}};
    assert_non_null(redis);
    command_run(redis, &command, 1);
    assert_int_equal(command.result, REDIS_ANSWERED);
    int64_t number = command_int(&command, -1);
    command_clear(&command, 1);
    redis_close(&redis);
    return number;
}

static void test_majority_of_clusters_is_refused(void **state)
{
    (void)state;
    const char *urls[] = {"redis+cluster://127.0.0.1:1", "redis://127.0.0.1:2",
                          "redis://127.0.0.1:3", NULL};
    struct seclock_client *red;
    struct seclock_handle *hold;
    struct seclock_request wanted = SECLOCK_REQUEST(.name = name, .kind = SECLOCK_KIND_RED);
    struct seclock_options options = SECLOCK_OPTIONS(.servers = urls, .prefix = servers.prefix);
    assert_result(seclock_open(&options, &red), SECLOCK_OK);
    assert_result(seclock_acquire(red, &wanted, &hold), SECLOCK_CONFIG);
    assert_string_equal(seclock_error(),
                        "server 1: a cluster, where a majority lock needs a server by itself");
    seclock_close(&red);
}

/* It would have several votes, under whatever names the list has it. */
static void test_majority_of_one_server_is_refused(void **state)
{
    (void)state;
    char alias[sizeof servers.red[0] + 16];
    const char *urls[] = {servers.red[0], alias, alias, NULL};
    struct seclock_client *red;
    struct seclock_handle *hold;
    struct seclock_request wanted = SECLOCK_REQUEST(.name = name, .kind = SECLOCK_KIND_RED);
    struct seclock_options options = SECLOCK_OPTIONS(.servers = urls, .prefix = servers.prefix);
    const char *host = strstr(servers.red[0], "127.0.0.1");
    assert_non_null(host);
    snprintf(alias, sizeof alias, "%.*slocalhost%s", (int)(host - servers.red[0]), servers.red[0],
             host + strlen("127.0.0.1"));
    for (int i = 0; i < 2; i++) {
        assert_result(seclock_open(&options, &red), SECLOCK_OK);
        assert_result(seclock_acquire(red, &wanted, &hold), SECLOCK_CONFIG);
        assert_non_null(strstr(seclock_error(), "are one"));
        seclock_close(&red);
        urls[1] = urls[2] = servers.red[0];
    }
}

/* What a try without a majority has taken would keep everybody out for a lease. */
static void test_failed_try_of_a_majority_keeps_nothing(void **state)
{
    (void)state;
    char key[sizeof servers.prefix + sizeof name + 8];
    struct seclock_handle *hold;
    struct seclock_request wanted =
        SECLOCK_REQUEST(.name = name, .kind = SECLOCK_KIND_RED, .lease_ms = 60000);
    struct seclock_client *red = client_open(SECLOCK_KIND_RED, SECLOCK_OPTIONS(.now_ns = NULL));
    snprintf(key, sizeof key, "%s{%s}:red", servers.prefix, name);
    for (int i = 1; i < RED_SERVERS; i++)
        red_number(i, 3, "SET", key, "another");
    assert_result(seclock_acquire(red, &wanted, &hold), SECLOCK_BUSY);
    wait_for(red_number(0, 2, "EXISTS", key, NULL) == 0);
    for (int i = 1; i < RED_SERVERS; i++)
        assert_int_equal(red_number(i, 2, "DEL", key, NULL), 1); /* which was not its own */
    assert_result(seclock_acquire(red, &wanted, &hold), SECLOCK_OK);
    give(&hold);
    seclock_close(&red);
}

/* Accepts connections and answers none, until it has looked at the threads that wait for that. */
static void *look_at_threads(void *argument)
{
    int *listener = argument, client = accept(*listener, NULL, NULL);
    int found = threads_open_to_signals();
    shutdown(*listener, SHUT_RDWR);
    if (client >= 0)
        close(client);
    *listener = found;
    return NULL;
}

static void test_threads_that_connect_take_no_signals(void **state)
{
    (void)state;
    char texts[RED_SERVERS][64];
    const char *urls[RED_SERVERS + 1] = {NULL};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), found = listener;
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    for (int i = 0; i < RED_SERVERS; i++) {
        snprintf(texts[i], sizeof texts[i], "redis://127.0.0.1:%d/%d", ntohs(address.sin_port), i);
        urls[i] = texts[i];
    }
    struct seclock_client *red;
    struct seclock_handle *hold;
    struct seclock_request wanted = SECLOCK_REQUEST(.name = name, .kind = SECLOCK_KIND_RED);
    struct seclock_options options = SECLOCK_OPTIONS(.servers = urls, .prefix = servers.prefix);
    assert_result(seclock_open(&options, &red), SECLOCK_OK);
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    assert_int_equal(pthread_create(&thread, NULL, look_at_threads, &found), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_result(seclock_acquire(red, &wanted, &hold), SECLOCK_FAILED);
    pthread_join(thread, NULL);
    assert_int_equal(found, 0);
    close(listener);
    seclock_close(&red);
}

/* ---- permits ---- */

static const enum seclock_kind permit_kinds[] = {SECLOCK_KIND_SEMAPHORE, SECLOCK_KIND_PERMIT};

static struct seclock_request permit_request(enum seclock_kind kind, int permits, int limit)
{
    return SECLOCK_REQUEST(.name = name, .kind = kind, .permits = permits, .limit = limit);
}

static enum seclock_result permit_take(enum seclock_kind kind, int permits, int limit,
                                       struct seclock_handle **out)
{
    struct seclock_request request = permit_request(kind, permits, limit);
    return seclock_acquire(mine, &request, out);
}

static void test_permits_are_counted(void **state)
{
    struct seclock_handle *two, *one, *more;
    struct seclock_status status = SECLOCK_STATUS();
    enum seclock_kind kind = *(const enum seclock_kind *)*state;
    assert_result(permit_take(kind, 1, 0, &more), SECLOCK_CONFIG); /* no limit is set */
    assert_result(permit_take(kind, 2, 3, &two), SECLOCK_OK);
    assert_result(permit_take(kind, 2, 3, &more), SECLOCK_BUSY);
    assert_result(permit_take(kind, 1, 0, &one), SECLOCK_OK);
    assert_result(permit_take(kind, 1, 0, &more), SECLOCK_BUSY);
    assert_result(permit_take(kind, 4, 9, &more), SECLOCK_CONFIG); /* there are 3, not 9 */
    assert_result(seclock_status(other, kind, name, &status), SECLOCK_OK);
    assert_true(status.held);
    assert_int_equal(status.count, 3);
    assert_int_equal(status.limit, 3);
    assert_true(seclock_fence(one) > seclock_fence(two));
    assert_int_equal(status.fence, seclock_fence(one));
    give(&two);
    assert_result(seclock_status(other, kind, name, &status), SECLOCK_OK);
    assert_int_equal(status.count, 1);
    assert_result(permit_take(kind, 2, 0, &two), SECLOCK_OK);
    give(&two);
    give(&one);
}

static void test_permits_can_be_changed(void **state)
{
    struct seclock_handle *one, *second;
    enum seclock_kind kind = *(const enum seclock_kind *)*state;
    assert_result(seclock_semaphore_set(mine, kind, name, 0), SECLOCK_CONFIG);
    assert_result(seclock_semaphore_set(mine, SECLOCK_KIND_SIMPLE, name, 1), SECLOCK_UNSUPPORTED);
    assert_result(seclock_semaphore_set(mine, kind, name, 1), SECLOCK_OK);
    assert_result(permit_take(kind, 1, 0, &one), SECLOCK_OK);
    struct waiting waiting = {.client = other, .request = permit_request(kind, 1, 0)};
    waiting.request.wait_ms = PATIENCE_MS;
    wait_begin(&waiting);
    assert_result(seclock_semaphore_set(mine, kind, name, 2), SECLOCK_OK);
    wait_end(&waiting, SECLOCK_OK);
    assert_result(seclock_semaphore_set(mine, kind, name, 1),
                  SECLOCK_OK); /* one more than the limit is taken */
    give(&waiting.handle);
    assert_result(permit_take(kind, 1, 0, &second), SECLOCK_BUSY);
    give(&one);
    assert_result(permit_take(kind, 1, 0, &second), SECLOCK_OK);
    give(&second);
}

static void test_permits_of_the_dead_come_back(void **state)
{
    struct seclock_handle *hold, *next;
    enum seclock_kind kind = *(const enum seclock_kind *)*state;
    struct seclock_request request = permit_request(kind, 2, 2);
    request.lease_ms = 300;
    assert_result(acquire_in_time(mine, &request, &hold), SECLOCK_OK);
    seclock_free(&hold); /* ends the renewal */
    int64_t began_ms = now_ms();
    request = permit_request(kind, 2, 0);
    request.wait_ms = PATIENCE_MS;
    assert_result(seclock_acquire(other, &request, &next), SECLOCK_OK);
    assert_true(now_ms() - began_ms < 300 + POLL_MS + SLACK_MS);
    give(&next);
}

static void test_waiter_for_many_permits_gets_them(void **state)
{
    struct seclock_handle *first, *second;
    enum seclock_kind kind = *(const enum seclock_kind *)*state;
    assert_result(permit_take(kind, 1, 2, &first), SECLOCK_OK);
    assert_result(permit_take(kind, 1, 2, &second), SECLOCK_OK);
    struct waiting waiting = {.client = other, .request = permit_request(kind, 2, 0)};
    waiting.request.wait_ms = PATIENCE_MS;
    wait_begin(&waiting);
    give(&first);
    sleep_ms(50);
    assert_false(waiting.done);
    give(&second);
    wait_end(&waiting, SECLOCK_OK);
    give(&waiting.handle);
}

/* One permit is not enough for the first in line, but for the second. */
static void test_permit_that_is_not_enough_for_one_wakes_the_next(void **state)
{
    struct seclock_handle *one, *two;
    enum seclock_kind kind = *(const enum seclock_kind *)*state;
    struct seclock_client *patient =
        client_open(SECLOCK_KIND_SEMAPHORE, SECLOCK_OPTIONS(.poll_ms = 2 * PATIENCE_MS));
    struct seclock_request request = permit_request(kind, 1, 3);
    request.lease_ms = 4 * PATIENCE_MS;
    assert_result(seclock_acquire(mine, &request, &one), SECLOCK_OK);
    request.permits = 2;
    assert_result(seclock_acquire(mine, &request, &two), SECLOCK_OK);
    struct waiting many = {.client = patient, .request = permit_request(kind, 3, 0)};
    struct waiting few = {.client = patient, .request = permit_request(kind, 1, 0)};
    many.request.wait_ms = few.request.wait_ms = 2 * PATIENCE_MS;
    wait_begin(&many);
    wait_begin(&few);
    int64_t released_ms = now_ms();
    give(&one);
    wait_end(&few, SECLOCK_OK);
    assert_true(few.ended_ms - released_ms < SLACK_MS);
    give(&two);
    give(&few.handle);
    wait_end(&many, SECLOCK_OK);
    give(&many.handle);
    seclock_close(&patient);
}

/* The server forgets the number a week after its last use, not after its setting. */
static void test_number_of_permits_in_use_is_kept(void **state)
{
    char key[sizeof servers.prefix + sizeof name + 20];
    struct seclock_handle *hold;
    enum seclock_kind kind = *(const enum seclock_kind *)*state;
    assert_result(seclock_semaphore_set(mine, kind, name, 2), SECLOCK_OK);
    snprintf(key, sizeof key, "%s{%s}:%s:limit", servers.prefix, name, seclock_kind_name(kind));
    assert_int_equal(redis_number("EXPIRE", key, "1000", NULL), 1); /* most of a week has passed */
    assert_result(permit_take(kind, 1, 0, &hold), SECLOCK_OK);
    assert_int_in_range(redis_number("TTL", key, NULL, NULL), 604000, 604800);
    give(&hold);
}

static void test_permit_is_given_back_by_id(void **state)
{
    (void)state;
    struct seclock_handle *hold, *next;
    assert_result(permit_take(SECLOCK_KIND_PERMIT, 1, 1, &hold), SECLOCK_OK);
    assert_result(seclock_permit_extend(other, name, seclock_token(hold), 20000), SECLOCK_OK);
    struct seclock_status status = SECLOCK_STATUS();
    assert_result(seclock_status(other, SECLOCK_KIND_PERMIT, name, &status), SECLOCK_OK);
    assert_int_in_range(status.remaining_ms, 15000, 20000);
    assert_result(seclock_permit_extend(other, name, "somebody else", 1000), SECLOCK_LOST);
    assert_result(seclock_permit_release(other, name, "somebody else"), SECLOCK_LOST);
    assert_result(seclock_permit_release(other, name, seclock_token(hold)), SECLOCK_OK);
    assert_result(permit_take(SECLOCK_KIND_PERMIT, 1, 1, &next), SECLOCK_OK);
    assert_result(seclock_permit_extend(other, name, seclock_token(hold), 1000), SECLOCK_LOST);
    give(&next);
    seclock_free(&hold);
}

/* ---- latches ---- */

static enum seclock_result latch_await(struct seclock_client *client, uint64_t generation,
                                       int wait_ms)
{
    return seclock_latch_await(
        client, &SECLOCK_REQUEST(.name = name, .generation = generation, .wait_ms = wait_ms));
}

static void test_latch_counts_a_request_once(void **state)
{
    (void)state;
    int64_t left = -1;
    struct seclock_status status = SECLOCK_STATUS();
    assert_result(seclock_latch_count(mine, name, &left), SECLOCK_CONFIG);
    assert_result(seclock_latch_count_down(mine, name, 0, "a", &left), SECLOCK_CONFIG);
    assert_result(latch_await(mine, 0, 0), SECLOCK_CONFIG);
    assert_result(seclock_latch_set(mine, name, 0, 0, NULL), SECLOCK_CONFIG);
    assert_result(seclock_latch_set(mine, name, 3, 0, NULL), SECLOCK_OK);
    assert_result(seclock_latch_set(other, name, 9, 0, NULL), SECLOCK_BUSY);
    for (int i = 0; i < 3; i++) {
        assert_result(seclock_latch_count_down(i % 2 ? mine : other, name, 0, "order 7", &left),
                      SECLOCK_OK);
        assert_int_equal(left, 2);
    }
    assert_result(seclock_latch_count_down(mine, name, 0, NULL, NULL), SECLOCK_OK);
    assert_result(seclock_status(other, SECLOCK_KIND_LATCH, name, &status), SECLOCK_OK);
    assert_true(status.held);
    assert_int_equal(status.count, 1);
    assert_result(latch_await(mine, 0, 100), SECLOCK_TIMEOUT);
    assert_result(seclock_latch_count_down(mine, name, 0, NULL, &left), SECLOCK_OK);
    assert_int_equal(left, 0);
    assert_result(latch_await(mine, 0, 0), SECLOCK_OK);
    assert_result(seclock_latch_count_down(mine, name, 0, "late", &left), SECLOCK_OK);
    assert_int_equal(left, 0);
    assert_result(seclock_latch_set(mine, name, 1, 0, NULL), SECLOCK_OK); /* again */
    assert_result(seclock_latch_count_down(mine, name, 0, "order 7", &left), SECLOCK_OK);
    assert_int_equal(left, 0);
}

/* Else a repeat would count twice in a latch that stays for longer. */
static void test_latch_knows_its_requests_as_long_as_it_lives(void **state)
{
    (void)state;
    char latch[sizeof servers.prefix + sizeof name + 16], counted[sizeof latch + 16];
    snprintf(latch, sizeof latch, "%s{%s}:latch", servers.prefix, name);
    snprintf(counted, sizeof counted, "%s:counted", latch);
    assert_result(seclock_latch_set(mine, name, 3, 0, NULL), SECLOCK_OK);
    assert_result(seclock_latch_count_down(mine, name, 0, "order 7", NULL), SECLOCK_OK);
    int64_t known_ms = redis_number("PTTL", counted, NULL, NULL);
    assert_true(known_ms > 0 && known_ms >= redis_number("PTTL", latch, NULL, NULL) - 1);
}

/* Round after round: who is late in one must not count down the next, nor wait for it. */
static void test_latch_has_generations(void **state)
{
    (void)state;
    int64_t left = -1;
    uint64_t first = 0, second = 0, third = 0;
    assert_result(seclock_latch_set(mine, name, 1, 0, &first), SECLOCK_OK);
    assert_true(first > 0);
    assert_result(latch_await(other, first, 0), SECLOCK_TIMEOUT);
    assert_result(seclock_latch_count_down(mine, name, first, "a", &left), SECLOCK_OK);
    assert_result(latch_await(other, first, 0), SECLOCK_OK);
    assert_result(seclock_latch_count_down(mine, name, first, "b", &left), SECLOCK_OK);
    assert_int_equal(left, 0);

    assert_result(seclock_latch_set(mine, name, 1, 0, &second), SECLOCK_OK);
    assert_true(second != first);
    assert_result(latch_await(other, first, 0), SECLOCK_OK); /* it was open */
    assert_result(seclock_latch_count_down(mine, name, first, "late", &left), SECLOCK_OK);
    assert_result(seclock_latch_count(mine, name, &left), SECLOCK_OK);
    assert_int_equal(left, 1);
    assert_result(latch_await(other, second, 0), SECLOCK_TIMEOUT);

    assert_result(seclock_break(mine, SECLOCK_KIND_LATCH, name), SECLOCK_OK);
    assert_result(latch_await(other, second, 0), SECLOCK_CONFIG);
    assert_result(seclock_latch_set(mine, name, 1, 0, &third), SECLOCK_OK);
    assert_result(latch_await(other, second, 0), SECLOCK_LOST); /* it never was */
    assert_result(seclock_latch_count_down(mine, name, second, "late", NULL), SECLOCK_LOST);
    assert_result(seclock_latch_count_down(mine, name, third, "a", &left), SECLOCK_OK);
    assert_result(latch_await(other, third, 0), SECLOCK_OK);
}

static void test_wait_for_a_latch_is_cancelled(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_result(seclock_latch_set(mine, name, 1, 0, NULL), SECLOCK_OK);
    struct seclock_request request =
        SECLOCK_REQUEST(.name = name, .wait_ms = SECLOCK_FOREVER, .cancel_fd = fds[0]);
    if (!IN_LOOP) /* see seclock_loop_cancel */
        assert_result(seclock_latch_await(mine, &request), SECLOCK_CANCELLED);
    close(fds[0]);
    close(fds[1]);
}

struct latch_wait {
    pthread_t thread;
    enum seclock_result result;
    int64_t ended_ms;
};

static void test_who_waits_no_more_hears_no_more(void **state)
{
    (void)state;
    static const char subscribers[] = "return redis.call('PUBSUB', 'SHARDNUMSUB', ARGV[1])[2]";
    char channel[sizeof servers.prefix + sizeof name + 8];
    struct seclock_handle *hold;
    struct seclock_request wanted = SECLOCK_REQUEST(.name = name);
    struct waiting waiting = {.client = other,
                              .request = SECLOCK_REQUEST(.name = name, .wait_ms = SECLOCK_FOREVER)};
    snprintf(channel, sizeof channel, "%s{%s}:lock", servers.prefix, name);
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_OK);
    wait_begin(&waiting);
    wait_for(redis_number("EVAL", subscribers, "0", channel) == 1);
    give(&hold);
    wait_end(&waiting, SECLOCK_OK);
    wait_for(redis_number("EVAL", subscribers, "0", channel) == 0); /* while it is held */
    give(&waiting.handle);
}

static void *latch_thread(void *argument)
{
    struct latch_wait *wait = argument;
    wait->result = latch_await(other, 0, SECLOCK_FOREVER);
    wait->ended_ms = now_ms();
    return NULL;
}

/* The first who waits reads the messages for all. */
static void test_thread_that_is_cancelled_leaves_no_dead_leader(void **state)
{
    (void)state;
    if (IN_LOOP)
        return; /* no thread waits */
    struct seclock_handle *hold;
    struct seclock_client *patient =
        client_open(SECLOCK_KIND_SIMPLE, SECLOCK_OPTIONS(.poll_ms = 2 * PATIENCE_MS));
    struct seclock_request wanted = SECLOCK_REQUEST(.name = name, .lease_ms = 4 * PATIENCE_MS);
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_OK);
    wanted.wait_ms = 500;
    struct waiting cancelled = {.client = patient, .request = wanted};
    wait_begin(&cancelled);
    pthread_cancel(cancelled.thread);
    wanted.wait_ms = 2 * PATIENCE_MS;
    struct waiting waiting = {.client = patient, .request = wanted};
    wait_begin(&waiting);
    wait_end(&cancelled, SECLOCK_TIMEOUT);
    int64_t released_ms = now_ms();
    give(&hold);
    wait_end(&waiting, SECLOCK_OK);
    assert_true(waiting.ended_ms - released_ms < SLACK_MS);
    give(&waiting.handle);
    seclock_close(&patient);
}

static void test_full_redis_keeps_readers_permits_and_latches(void **state)
{
    (void)state;
    int64_t left = 0;
    struct seclock_handle *readers[2], *permits[2];
    for (int i = 0; i < 2; i++)
        assert_result(rw_take(owners[i], SECLOCK_MODE_READ, &readers[i]), SECLOCK_OK);
    for (int i = 0; i < 2; i++)
        assert_result(permit_take(permit_kinds[i], 2, 3, &permits[i]), SECLOCK_OK);
    assert_result(seclock_latch_set(mine, name, 2, 0, NULL), SECLOCK_OK);
    redis_fill_up(true);
    enum seclock_result results[] = {
        seclock_renew(readers[0]),
        seclock_renew(permits[0]),
        seclock_permit_extend(mine, name, seclock_token(permits[1]), LEASE_MS),
        seclock_latch_count_down(mine, name, 0, "a", &left),
        seclock_latch_count_down(mine, name, 0, NULL, &left),
        seclock_latch_set(mine, name, 1, 0, NULL),
        seclock_release(readers[0]),
        seclock_release(readers[1]),
        seclock_release(permits[0]),
        seclock_permit_release(mine, name, seclock_token(permits[1])),
    };
    redis_fill_up(false);
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        if (results[i] != SECLOCK_OK)
            fail_msg("step %zu: %s", i, seclock_result_name(results[i]));
    for (int i = 0; i < 2; i++) {
        seclock_free(&readers[i]);
        seclock_free(&permits[i]);
    }
    assert_int_equal(left, 0);
}

static void test_latch_wakes_all_who_wait(void **state)
{
    (void)state;
    struct latch_wait waits[5];
    assert_result(seclock_latch_set(mine, name, 2, 0, NULL), SECLOCK_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(pthread_create(&waits[i].thread, NULL, latch_thread, &waits[i]), 0);
    sleep_ms(100);
    assert_result(seclock_latch_count_down(mine, name, 0, NULL, NULL), SECLOCK_OK);
    sleep_ms(100);
    int64_t opened_ms = now_ms();
    assert_result(seclock_latch_count_down(mine, name, 0, NULL, NULL), SECLOCK_OK);
    for (int i = 0; i < 5; i++) {
        pthread_join(waits[i].thread, NULL);
        assert_int_equal(waits[i].result, SECLOCK_OK);
        assert_int_in_range(waits[i].ended_ms - opened_ms, 0, SLACK_MS);
    }
}

static void test_latch_is_forgotten(void **state)
{
    (void)state;
    int64_t left;
    struct seclock_handle *hold;
    struct seclock_request request = SECLOCK_REQUEST(.name = name, .kind = SECLOCK_KIND_LATCH);
    assert_result(seclock_latch_set(mine, name, 1, 50, NULL), SECLOCK_OK);
    sleep_ms(80);
    assert_result(seclock_latch_count(mine, name, &left), SECLOCK_CONFIG);
    assert_result(seclock_acquire(mine, &request, &hold), SECLOCK_UNSUPPORTED);
}

/* ---- what the server remembers, and how long it may take ---- */

/* Its answer may be lost, and the release be sent again when the lease would have ended. */
static void test_release_is_remembered_beyond_its_lease(void **state)
{
    (void)state;
    enum { BRIEF_MS = 3000 };
    char body[160];
    struct seclock_handle *hold;
    struct seclock_request wanted = SECLOCK_REQUEST(.name = name, .lease_ms = BRIEF_MS);
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_OK);
    seclock_release(hold); /* SECLOCK_LOST on a machine that stood still */
    seclock_free(&hold);
    snprintf(body, sizeof body,
             "if key:find('{%s}:released:', 1, true) then n = n + redis.call('PTTL', key) end",
             name);
    assert_true(redis_each_key(body) > BRIEF_MS);
}

/* A renewal has a short time, as its lease is short; the next request on its connection has all the
 * time that the client allows. */
static void test_request_has_its_time_after_a_hasty_one(void **state)
{
    (void)state;
    struct seclock_handle *brief, *lasting;
    struct seclock_client *patient =
        client_open(SECLOCK_KIND_SIMPLE, SECLOCK_OPTIONS(.timeout_ms = PATIENCE_MS));
    struct seclock_request wanted =
        SECLOCK_REQUEST(.name = name, .lease_ms = 4 * PATIENCE_MS, .fixed_lease = true);
    assert_result(seclock_acquire(patient, &wanted, &lasting), SECLOCK_OK);
    wanted.name = "brief";
    wanted.lease_ms = 100;
    seclock_acquire(patient, &wanted, &brief);
    if (brief)
        seclock_renew(brief); /* whatever a slow machine makes of it */
    redis_number("CLIENT", "PAUSE", "700", NULL);
    assert_result(seclock_release(lasting), SECLOCK_OK);
    seclock_free(&brief);
    seclock_free(&lasting);
    seclock_close(&patient);
}

/* ---- several locks at once ---- */

enum { MEMBERS = 4 };

static const enum seclock_kind member_kinds[MEMBERS] = {SECLOCK_KIND_TABLE, SECLOCK_KIND_SIMPLE,
                                                        SECLOCK_KIND_FAIR, SECLOCK_KIND_GET_LOCK};

/* Fills the calling thread's requests. */
static struct seclock_multi members_fill(const struct seclock_request *members[MEMBERS],
                                         struct seclock_client *client, bool backwards)
{
    static _Thread_local char names[MEMBERS][SECLOCK_NAME_MAX];
    static _Thread_local struct seclock_request requests[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        int at = backwards ? MEMBERS - 1 - i : i;
        snprintf(names[at], SECLOCK_NAME_MAX, "%s-%d", name, at);
        requests[at] = SECLOCK_REQUEST(.name = names[at], .kind = member_kinds[at]);
        members[i] = &requests[at];
    }
    return SECLOCK_MULTI(.client = client, .requests = members, .count = MEMBERS);
}

static enum seclock_result multi_acquire(struct seclock_multi multi, int wait_ms,
                                         struct seclock_handle **handles_out)
{
    multi.wait_ms = wait_ms;
    return seclock_multi_acquire(&multi, handles_out);
}

static void test_all_or_nothing(void **state)
{
    (void)state;
    const struct seclock_request *members[MEMBERS];
    struct seclock_handle *holds[MEMBERS], *one, *none[MEMBERS];
    struct seclock_multi multi = members_fill(members, mine, false);
    for (int i = 0; i < MEMBERS; i++) {
        assert_result(seclock_acquire(other, members[i], &one), SECLOCK_OK);
        assert_result(multi_acquire(multi, 0, holds), SECLOCK_BUSY);
        assert_result(multi_acquire(multi, 100, holds), SECLOCK_TIMEOUT);
        for (int j = 0; j < MEMBERS; j++)
            assert_null(holds[j]);
        give(&one);
    }
    assert_result(multi_acquire(multi, 0, holds), SECLOCK_OK);
    for (int i = 0; i < MEMBERS; i++) {
        assert_string_equal(seclock_name(holds[i]), members[i]->name);
        assert_int_equal(seclock_state(holds[i]), SECLOCK_STATE_HELD);
        assert_result(seclock_acquire(other, members[i], &one), SECLOCK_BUSY);
    }
    assert_result(seclock_multi_release(holds, MEMBERS), SECLOCK_OK);
    seclock_multi_free(holds, MEMBERS);
    members[1] = members[0];
    assert_result(multi_acquire(multi, 0, none), SECLOCK_CONFIG);
}

struct pair_wait {
    struct seclock_client *client;
    const struct seclock_request *members[2];
    struct seclock_handle *holds[2];
    enum seclock_result result;
};

static void *pair_thread(void *argument)
{
    struct pair_wait *pair = argument;
    pair->result =
        seclock_multi_acquire(&SECLOCK_MULTI(.client = pair->client, .requests = pair->members,
                                             .count = 2, .wait_ms = SECLOCK_FOREVER),
                              pair->holds);
    return NULL;
}

/* The lock "first" is taken first, wherever it stands among the members, and its lease is over when
 * the second is had as well. */
static void test_member_that_is_lost_during_the_wait_fails_all(void **state)
{
    (void)state;
    pthread_t thread;
    struct seclock_handle *hold;
    struct seclock_client *moved =
        client_open(SECLOCK_KIND_SIMPLE, SECLOCK_OPTIONS(.now_ns = moved_now_ns));
    struct seclock_request first = SECLOCK_REQUEST(.name = "first");
    struct seclock_request second = SECLOCK_REQUEST(.name = "second");
    for (int i = 0; i < 2; i++) {
        struct pair_wait pair = {.client = moved,
                                 .members = {i == 0 ? &first : &second, i == 0 ? &second : &first}};
        uint64_t waits = stats_of(moved).waits;
        assert_result(seclock_acquire(other, &second, &hold), SECLOCK_OK);
        assert_int_equal(pthread_create(&thread, NULL, pair_thread, &pair), 0);
        wait_for(stats_of(moved).waits > waits);
        clock_ahead_ns += INT64_C(3600) * 1000000000;
        give(&hold);
        pthread_join(thread, NULL);
        assert_result(pair.result, SECLOCK_LOST);
        for (int j = 0; j < 2; j++) {
            assert_null(pair.holds[j]);
            assert_result(seclock_acquire(other, pair.members[j], &hold), SECLOCK_OK);
            give(&hold);
        }
    }
    seclock_close(&moved);
}

/* Two processes may write the URL of one server in two ways. Were that to decide the order, each
 * could hold the lock that the other waits for. */
static void test_order_is_not_that_of_the_urls(void **state)
{
    (void)state;
    char url[256] = "REDIS";
    const char *urls[] = {url, NULL};
    struct seclock_client *same;
    struct seclock_handle *hold, *holds[2];
    struct seclock_request a = SECLOCK_REQUEST(.name = "a"), b = SECLOCK_REQUEST(.name = "b");
    struct seclock_options options = SECLOCK_OPTIONS(.servers = urls, .prefix = servers.prefix);
    strcpy(url + 5, servers.redis + 5); /* comes before redis:// */
    assert_result(seclock_open(&options, &same), SECLOCK_OK);
    assert_result(seclock_acquire(other, &a, &hold), SECLOCK_OK);
    struct seclock_client *clients[] = {mine, same};
    const struct seclock_request *requests[] = {&a, &b};
    struct seclock_multi multi =
        SECLOCK_MULTI(.clients = clients, .requests = requests, .count = 2);
    assert_result(seclock_multi_acquire(&multi, holds), SECLOCK_BUSY);
    assert_int_equal(stats_of(same).acquired, 0); /* it came to `a` first */
    clients[0] = same;
    clients[1] = mine;
    assert_result(seclock_multi_acquire(&multi, holds), SECLOCK_BUSY);
    assert_int_equal(stats_of(mine).acquired, 0);
    give(&hold);
    assert_result(seclock_multi_acquire(&multi, holds), SECLOCK_OK);
    assert_result(seclock_multi_release(holds, 2), SECLOCK_OK);
    seclock_multi_free(holds, 2);
    seclock_close(&same);
}

static void test_wait_for_several_is_cancelled(void **state)
{
    (void)state;
    int fds[2];
    struct seclock_handle *hold, *holds[1];
    struct seclock_request request = SECLOCK_REQUEST(.name = name);
    const struct seclock_request *requests[] = {&request};
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_result(seclock_acquire(other, &request, &hold), SECLOCK_OK);
    struct seclock_multi multi = SECLOCK_MULTI(.client = mine, .requests = requests, .count = 1,
                                               .wait_ms = SECLOCK_FOREVER, .cancel_fd = fds[0]);
    assert_result(seclock_multi_acquire(&multi, holds), SECLOCK_CANCELLED);
    give(&hold);
    close(fds[0]);
    close(fds[1]);
}

struct group {
    struct seclock_client *client;
    bool backwards;
    atomic_int *inside;
    int done, overlaps;
};

static void *group_thread(void *argument)
{
    struct group *group = argument;
    const struct seclock_request *members[MEMBERS];
    struct seclock_handle *holds[MEMBERS];
    struct seclock_multi multi = members_fill(members, group->client, group->backwards);
    for (int i = 0; i < 10; i++) {
        if (multi_acquire(multi, PATIENCE_MS, holds) != SECLOCK_OK)
            continue;
        group->overlaps += atomic_fetch_add(group->inside, 1) != 0;
        sleep_ms(1);
        atomic_fetch_sub(group->inside, 1);
        group->done += seclock_multi_release(holds, MEMBERS) == SECLOCK_OK;
        seclock_multi_free(holds, MEMBERS);
    }
    return NULL;
}

static void test_groups_in_either_order_do_not_block(void **state)
{
    (void)state;
    pthread_t threads[2];
    atomic_int inside = 0;
    struct group groups[2] = {{mine, false, &inside, 0, 0}, {other, true, &inside, 0, 0}};
    const struct seclock_request *members[MEMBERS];
    members_fill(members, mine, false); /* the names are made before there are threads */
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, group_thread, &groups[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(groups[i].done, 10);
        assert_int_equal(groups[i].overlaps, 0);
    }
}

/* ---- versioned values ---- */

static const enum seclock_store stores[] = {SECLOCK_STORE_REDIS, SECLOCK_STORE_MYSQL};

static void test_value_changes_for_who_has_seen_it(void **state)
{
    enum seclock_store store = *(const enum seclock_store *)*state;
    char *data = malloc(SECLOCK_VALUE_MAX), *seen = malloc(SECLOCK_VALUE_MAX);
    struct seclock_value value = SECLOCK_VALUE(.data = data, .capacity = SECLOCK_VALUE_MAX);
    struct seclock_value late = SECLOCK_VALUE(.data = seen, .capacity = SECLOCK_VALUE_MAX);
    assert_result(seclock_value_read(mine, store, name, &value), SECLOCK_OK);
    assert_int_equal(value.version, 0);
    assert_int_equal(value.length, 0);
    memset(data, 0, SECLOCK_VALUE_MAX); /* any bytes */
    memcpy(data, "a\0'\\b", 5);
    value.length = SECLOCK_VALUE_MAX;
    assert_result(seclock_value_swap(mine, store, name, &value, 0), SECLOCK_OK);
    uint64_t first = value.version;
    assert_true(first > 0);
    assert_result(seclock_value_swap(other, store, name, &late, 0), SECLOCK_BUSY);
    assert_result(seclock_value_read(other, store, name, &late), SECLOCK_OK);
    assert_int_equal(late.version, first);
    assert_int_equal(late.length, SECLOCK_VALUE_MAX);
    assert_memory_equal(late.data, data, SECLOCK_VALUE_MAX);
    value.length = 1;
    assert_result(seclock_value_swap(mine, store, name, &value, 0), SECLOCK_OK);
    assert_true(value.version > first);
    assert_result(seclock_value_swap(other, store, name, &late, 0), SECLOCK_BUSY);
    free(data);
    free(seen);
}

static void test_value_that_the_buffer_cannot_take(void **state)
{
    enum seclock_store store = *(const enum seclock_store *)*state;
    char data[8], small[7];
    memcpy(data, "12345678", sizeof data);
    struct seclock_value value = SECLOCK_VALUE(.data = data, .length = sizeof data);
    assert_result(seclock_value_swap(mine, store, name, &value, 0), SECLOCK_OK);
    struct seclock_value tight = SECLOCK_VALUE(.data = small, .capacity = sizeof small);
    assert_result(seclock_value_read(mine, store, name, &tight), SECLOCK_CONFIG);
    assert_int_equal(tight.length, sizeof data);
    assert_int_equal(tight.version, 0);
    memset(data, 0, sizeof data);
    tight.data = data;
    tight.capacity = tight.length;
    assert_result(seclock_value_read(mine, store, name, &tight), SECLOCK_OK);
    assert_int_equal(tight.version, value.version);
    assert_memory_equal(data, "12345678", sizeof data);
    tight.size = 0;
    assert_result(seclock_value_read(mine, store, name, &tight), SECLOCK_CONFIG);
}

static bool add_one(struct seclock_value *value, void *context)
{
    (void)context;
    assert_true(value->length < value->capacity);
    value->data[value->length] = '\0';
    value->length = (size_t)snprintf(value->data, 32, "%d", (int)strtol(value->data, NULL, 10) + 1);
    return true;
}

static bool refuse(struct seclock_value *value, void *context)
{
    (void)value;
    (void)context;
    return false;
}

struct adding {
    enum seclock_store store;
    struct seclock_client *client;
    int added;
};

static void *add_thread(void *argument)
{
    struct adding *adding = argument;
    char data[32];
    struct seclock_value value = SECLOCK_VALUE(.data = data, .capacity = sizeof data);
    for (int i = 0; i < 25; i++)
        adding->added += seclock_value_update(adding->client, adding->store, name, &value, add_one,
                                              NULL, 1000) == SECLOCK_OK;
    return NULL;
}

static void test_no_update_is_lost(void **state)
{
    enum seclock_store store = *(const enum seclock_store *)*state;
    pthread_t threads[4];
    struct adding adding[4];
    char data[32];
    struct seclock_value value = SECLOCK_VALUE(.data = data, .capacity = sizeof data);
    for (int i = 0; i < 4; i++) {
        adding[i] = (struct adding){store, i % 2 ? mine : other, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, add_thread, &adding[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(adding[i].added, 25);
    }
    assert_result(seclock_value_read(mine, store, name, &value), SECLOCK_OK);
    data[value.length] = '\0';
    assert_string_equal(data, "100");
    assert_result(seclock_value_update(mine, store, name, &value, refuse, NULL, 3),
                  SECLOCK_CANCELLED);
}

/* ---- many locks ---- */

/* A loop shares the watchdog; each of its calls here waits for another thread, which costs more. */
enum { MANY = IN_LOOP ? 2000 : 10000, MANY_LEASE_MS = 6000 };

static int threads_of_process(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void test_one_thread_renews_ten_thousand_locks(void **state)
{
    (void)state;
    struct seclock_handle **holds = calloc(MANY, sizeof(struct seclock_handle *));
    struct seclock_request request =
        SECLOCK_REQUEST(.kind = SECLOCK_KIND_SIMPLE, .lease_ms = MANY_LEASE_MS);
    char one[SECLOCK_NAME_MAX];
    int threads = threads_of_process();
    request.name = one;
    for (int i = 0; i < MANY; i++) {
        snprintf(one, sizeof one, "%s-%d", name, i);
        assert_result(seclock_acquire(mine, &request, &holds[i]), SECLOCK_OK);
    }
    assert_int_equal(stats_of(mine).watched, MANY);
    /* A loop's: one that tells it of losses, one that connects, one that takes its events here. */
    assert_int_equal(threads_of_process(), threads + 1 + 3 * IN_LOOP);
    uint64_t before = stats_of(mine).renewals;
    wait_for(stats_of(mine).renewals - before > 2 * MANY);
    assert_int_equal(stats_of(mine).lost, 0);
    assert_int_equal(stats_of(mine).renew_errors, 0);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(seclock_state(holds[i]), SECLOCK_STATE_HELD);
        if (i % 1000 == 0)
            assert_result(seclock_renew(holds[i]), SECLOCK_OK);
        give(&holds[i]);
    }
    free(holds);
}

/* The longest time for which this thread did not run: a machine that stands still for longer than a
 * lease loses it. */
struct pauses {
    int64_t seen_ms, longest_ms;
};

static void look(struct pauses *pauses)
{
    int64_t now = now_ms(), pause_ms = pauses->seen_ms > 0 ? now - pauses->seen_ms : 0;
    pauses->longest_ms = pause_ms > pauses->longest_ms ? pause_ms : pauses->longest_ms;
    pauses->seen_ms = now;
}

static void test_many_rows_are_renewed(void **state)
{
    (void)state;
    enum { ROWS = 300, ROWS_LEASE_MS = 4000, ROUNDS = 2 };
    struct seclock_handle *holds[ROWS];
    struct seclock_request request =
        SECLOCK_REQUEST(.kind = SECLOCK_KIND_TABLE, .lease_ms = ROWS_LEASE_MS);
    struct pauses pauses = {0};
    char one[SECLOCK_NAME_MAX];
    request.name = one;
    for (int i = 0; i < ROWS; i++, look(&pauses)) {
        snprintf(one, sizeof one, "%s-%d", name, i);
        assert_result(seclock_acquire(mine, &request, &holds[i]), SECLOCK_OK);
    }
    wait_for((look(&pauses), stats_of(mine).renewals > ROUNDS * ROWS || stats_of(mine).lost > 0));
    bool stood_still = pauses.longest_ms > ROWS_LEASE_MS / 2;
    assert_true(stood_still || stats_of(mine).lost == 0);
    for (int i = 0; i < ROWS; i++) {
        enum seclock_result result = seclock_release(holds[i]);
        assert_true(result == SECLOCK_OK || (stood_still && result == SECLOCK_LOST));
        seclock_free(&holds[i]);
    }
}

/* ---- keys left behind; last, after all other tests have written ---- */

static void test_no_key_stays_for_ever(void **state)
{
    (void)state;
    assert_true(redis_each_key("n = n + 1") > 0);
    assert_int_equal(redis_each_key("if redis.call('PTTL', key) < 0 then n = n + 1 end"), 0);
}

static void test_words(void **state)
{
    (void)state;
    for (int i = 0; i < SECLOCK_KIND_COUNT; i++) {
        enum seclock_kind kind;
        assert_true(seclock_kind_find(seclock_kind_name((enum seclock_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    enum seclock_kind kind;
    assert_false(seclock_kind_find("", &kind));
    assert_false(seclock_kind_find("simpl", &kind));
    assert_string_equal(seclock_result_name(SECLOCK_NOT_OWNER), "not owner");
    assert_string_equal(seclock_state_name(SECLOCK_STATE_LOST), "lost");
    char warning[256] = "x";
    assert_result(seclock_check(mine, SECLOCK_KIND_SIMPLE, warning, sizeof warning), SECLOCK_OK);
    assert_string_equal(warning, "");
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)
#define CASE_OF(function, state)                                                                   \
    cmocka_unit_test_prestate_setup_teardown(function, begin, end, (void *)(uintptr_t) & (state))

/* With an argument, only the tests whose name holds it. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE_OF(test_readers_share, rw_kinds[0]),
        CASE_OF(test_readers_share, rw_kinds[1]),
        CASE(test_waiting_writer_keeps_new_readers_out),
        CASE_OF(test_writer_that_gives_up_lets_readers_in, rw_kinds[0]),
        CASE_OF(test_writer_that_gives_up_lets_readers_in, rw_kinds[1]),
        CASE_OF(test_readers_do_not_starve_a_writer, rw_kinds[0]),
        CASE_OF(test_readers_do_not_starve_a_writer, rw_kinds[1]),
        CASE(test_writer_steps_down),
        CASE(test_reader_that_would_write_is_refused),
        CASE(test_read_holds_end_by_themselves),
        CASE_OF(test_break_frees_from_readers_too, rw_kinds[0]),
        CASE_OF(test_break_frees_from_readers_too, rw_kinds[1]),
        CASE(test_majority_of_clusters_is_refused),
        CASE(test_majority_of_one_server_is_refused),
        CASE(test_failed_try_of_a_majority_keeps_nothing),
        CASE(test_threads_that_connect_take_no_signals),
        CASE_OF(test_permits_are_counted, permit_kinds[0]),
        CASE_OF(test_permits_are_counted, permit_kinds[1]),
        CASE_OF(test_permits_can_be_changed, permit_kinds[0]),
        CASE_OF(test_permits_can_be_changed, permit_kinds[1]),
        CASE_OF(test_number_of_permits_in_use_is_kept, permit_kinds[0]),
        CASE_OF(test_number_of_permits_in_use_is_kept, permit_kinds[1]),
        CASE_OF(test_permits_of_the_dead_come_back, permit_kinds[0]),
        CASE_OF(test_permits_of_the_dead_come_back, permit_kinds[1]),
        CASE_OF(test_waiter_for_many_permits_gets_them, permit_kinds[0]),
        CASE_OF(test_waiter_for_many_permits_gets_them, permit_kinds[1]),
        CASE_OF(test_permit_that_is_not_enough_for_one_wakes_the_next, permit_kinds[0]),
        CASE_OF(test_permit_that_is_not_enough_for_one_wakes_the_next, permit_kinds[1]),
        CASE(test_permit_is_given_back_by_id),
        CASE(test_thread_that_is_cancelled_leaves_no_dead_leader),
        CASE(test_full_redis_keeps_readers_permits_and_latches),
        CASE(test_who_waits_no_more_hears_no_more),
        CASE(test_latch_counts_a_request_once),
        CASE(test_latch_knows_its_requests_as_long_as_it_lives),
        CASE(test_latch_has_generations),
        CASE(test_wait_for_a_latch_is_cancelled),
        CASE(test_latch_wakes_all_who_wait),
        CASE(test_latch_is_forgotten),
        CASE(test_release_is_remembered_beyond_its_lease),
        CASE(test_request_has_its_time_after_a_hasty_one),
        CASE(test_all_or_nothing),
        CASE(test_member_that_is_lost_during_the_wait_fails_all),
        CASE(test_wait_for_several_is_cancelled),
        CASE(test_order_is_not_that_of_the_urls),
        CASE(test_groups_in_either_order_do_not_block),
        CASE_OF(test_value_changes_for_who_has_seen_it, stores[0]),
        CASE_OF(test_value_changes_for_who_has_seen_it, stores[1]),
        CASE_OF(test_value_that_the_buffer_cannot_take, stores[0]),
        CASE_OF(test_value_that_the_buffer_cannot_take, stores[1]),
        CASE_OF(test_no_update_is_lost, stores[0]),
        CASE_OF(test_no_update_is_lost, stores[1]),
        CASE(test_one_thread_renews_ten_thousand_locks),
        CASE(test_many_rows_are_renewed),
        CASE(test_words),
        CASE(test_no_key_stays_for_ever),
    };
    if (!servers_open("kinds"))
        return 1;
    char pattern[64];
    snprintf(pattern, sizeof pattern, "*%s*", argc > 1 ? argv[1] : "");
    cmocka_set_test_filter(pattern);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_forget_all();
    redis_close(&servers.commands);
    return failed;
}
