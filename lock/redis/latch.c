/* The count-down latch: a number under prefix{name}:latch, and the set of requests that it has
 * counted; a second set keeps the requests of the latch's former setting. */
#include <stdlib.h>
#include <string.h>

#include "lock/process.h"
#include "lock/redis/kind.h"
#include "lock/text.h"

#define FIELD "latch"
#define COUNTED "latch:counted"
#define KEYS FIELD " " COUNTED " latch:before"

enum { TTL_MS = 86400000, ABSENT = -1, RETRY_MS_MAX = 100 };

static enum seclock_result never_set(void)
{
    return lock_fail(SECLOCK_CONFIG, "the latch is not set");
}

/* Only this call has no id and cannot be repeated, so a lost answer is SECLOCK_UNKNOWN. */
enum seclock_result seclock_latch_set(struct seclock_client *client, const char *name,
                                      int64_t count, int ttl_ms)
{
    struct script_call call;
    struct redis_server *server;
    enum seclock_result result = redis_kind_server(client, name, &server);
    if (result != SECLOCK_OK)
        return result;
    if (count < 1 || ttl_ms < 0)
        return lock_fail(SECLOCK_CONFIG, "a latch counts from 1 or more");
    redis_server_begin(server, &call, SCRIPT_lock_latch_set, name, "", KEYS);
    script_int(&call, count);
    script_int(&call, ttl_ms > 0 ? ttl_ms : TTL_MS);
    redis_server_run_once(server, &call); /* a repeat would find the latch that it has set */
    return redis_server_answer(&call, SECLOCK_BUSY);
}

/* A request's id makes the count safe to repeat: an order that is counted down twice counts
 * once. The call has an id as well: its repeat does not count in a latch that was set meanwhile. */
enum seclock_result seclock_latch_count_down(struct seclock_client *client, const char *name,
                                             const char *request, int64_t *left_out)
{
    struct script_call call;
    struct redis_server *server;
    char random[LOCK_RANDOM_SIZE];
    enum seclock_result result = redis_kind_server(client, name, &server);
    if (result != SECLOCK_OK)
        return result;
    if (request && (request[0] == '\0' || strlen(request) >= SECLOCK_TOKEN_MAX)) {
        lock_set_error("a request has 1 to %d bytes", SECLOCK_TOKEN_MAX - 1);
        return SECLOCK_CONFIG;
    }
    lock_random_text(random);
    redis_server_begin(server, &call, SCRIPT_lock_latch_down, name, "", KEYS);
    script_text(&call, request ? request : random);
    script_text(&call, random);
    redis_server_run(server, &call, 1, 0, false);
    result = redis_server_answer(&call, SECLOCK_CONFIG);
    if (result == SECLOCK_OK && left_out)
        *left_out = call.values[1];
    return result == SECLOCK_CONFIG ? never_set() : result;
}

/* ABSENT is not 0: an open latch stays at 0 until it is forgotten. */
static enum seclock_result count_of(struct redis_server *server, const char *name,
                                    int64_t *left_out)
{
    char key[SCRIPT_KEY_MAX];
    struct command command = {.argc = 2, .argv = {"GET", key}};
    redis_server_key(server, name, FIELD, key);
    enum seclock_result result = redis_server_commands(server, &command, 1, NULL);
    *left_out = command_text(&command, -1, NULL) ? command_int(&command, -1) : ABSENT;
    command_clear(&command, 1);
    return result;
}

enum seclock_result seclock_latch_count(struct seclock_client *client, const char *name,
                                        int64_t *left_out)
{
    struct redis_server *server;
    enum seclock_result result = redis_kind_server(client, name, &server);
    *left_out = 0;
    if (result == SECLOCK_OK)
        result = count_of(server, name, left_out);
    return result == SECLOCK_OK && *left_out == ABSENT ? never_set() : result;
}

/* Without an answer SECLOCK_FAILED: reading leaves no doubt. */
static enum seclock_result latch_read(struct redis_server *server, const char *name)
{
    int64_t left;
    enum seclock_result result = count_of(server, name, &left);
    if (result != SECLOCK_OK)
        return SECLOCK_FAILED;
    return left == ABSENT ? SECLOCK_CONFIG : left == 0 ? SECLOCK_OK : SECLOCK_BUSY;
}

/* Sleeps after a read without an answer; false when no read was answered for outage_ms. */
static bool latch_sleep(const struct lock_core *core, int64_t *failed_ns, int64_t left_ms)
{
    int64_t now_ns = core->options.now_ns();
    if (*failed_ns == 0)
        *failed_ns = now_ns;
    if (now_ns - *failed_ns > core->options.outage_ms * INT64_C(1000000))
        return false;
    lock_random_pause(left_ms < RETRY_MS_MAX ? (unsigned)left_ms : RETRY_MS_MAX);
    return true;
}

/* Waiting reads the count after each message and at least every poll_ms: a latch that opened
 * between the first read and the subscription is seen by the second. */
static enum seclock_result latch_wait(const struct lock_core *core, struct redis_server *server,
                                      const char *name, int wait_ms)
{
    int64_t until_ns = core->options.now_ns() + (int64_t)wait_ms * 1000000, failed_ns = 0;
    int poll_ms = core->options.poll_ms;
    struct seclock_handle waiting = {.driver = &redis_latch_driver};
    enum seclock_result result = latch_read(server, name);
    strcpy(waiting.name, name);
    while (result == SECLOCK_BUSY || result == SECLOCK_FAILED) {
        int64_t left_ms = (until_ns - core->options.now_ns()) / 1000000;
        if (wait_ms == SECLOCK_FOREVER || left_ms > poll_ms)
            left_ms = poll_ms;
        if (left_ms <= 0 || (result == SECLOCK_FAILED && !latch_sleep(core, &failed_ns, left_ms)))
            break;
        if (result == SECLOCK_BUSY) {
            failed_ns = 0;
            redis_kind_wait(server, &waiting, (int)left_ms);
        }
        result = latch_read(server, name);
    }
    redis_kind_stop_waiting(server, &waiting, true); /* its messages are for all */
    if (result == SECLOCK_BUSY)
        return lock_fail(SECLOCK_TIMEOUT, "the latch is not open");
    return result == SECLOCK_CONFIG ? never_set() : result;
}

enum seclock_result seclock_latch_await(struct seclock_client *client, const char *name,
                                        int wait_ms)
{
    UNCANCELLED;
    struct redis_server *server;
    enum seclock_result result = redis_kind_server(client, name, &server);
    if (result != SECLOCK_OK)
        return result;
    return latch_wait(client_core(client), server, name, wait_ms);
}

/* ---- the driver: for operators only ---- */

/* A latch has a count instead of a holder. */
static enum seclock_result latch_status(const struct lock_driver *driver, void *self,
                                        const char *name, struct seclock_status *status_out)
{
    enum seclock_result result = redis_kind_status(driver, self, name, status_out);
    status_out->count = strtoll(status_out->holder, NULL, 10);
    status_out->held = status_out->count > 0;
    status_out->holder[0] = '\0';
    return result;
}

const struct lock_driver redis_latch_driver = {
    .kind = SECLOCK_KIND_LATCH,
    .features = LOCK_NO_HOLDS,
    .row = &(const struct redis_row){.field = FIELD, .message = "*", .others = {COUNTED}},
    .open = redis_kind_open,
    .status = latch_status,
    .break_lock = redis_kind_break,
    .check = redis_kind_check,
};
