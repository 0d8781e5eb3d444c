/* Implements the count-down latch: a number under prefix{name}:latch, the set of requests that it
 * has counted, and which generation it is, with the last one that was open; a second set keeps the
 * requests of the generation before. */
#include <stdlib.h>
#include <string.h>

#include "lock/lock.h"
#include "lock/process.h"
#include "lock/redis/kind.h"
#include "lock/text.h"

#define FIELD "latch"
#define COUNTED "latch:counted"
#define GENERATION "latch:generation"
#define KEYS FIELD " " COUNTED " latch:before " GENERATION

enum { TTL_MS = 86400000, ABSENT = -1 };

/* This call alone has no id and cannot be repeated, so a lost answer is SECLOCK_UNKNOWN. */
enum seclock_result seclock_latch_set(struct seclock_client *client, const char *name,
                                      int64_t count, int ttl_ms, uint64_t *generation_out)
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
    redis_server_run(server, &call, 1, 0,
                     SERVER_ONCE); /* a repeat would find the latch that it has set */
    result = redis_server_answer(&call, SECLOCK_BUSY);
    if (result == SECLOCK_OK && generation_out)
        *generation_out = (uint64_t)call.values[1];
    return result;
}

/* The request's id makes the count safe to repeat: an order that is counted down twice counts once.
 * The call has an id as well, so that its repeat does not count in a latch set meanwhile. */
enum seclock_result seclock_latch_count_down(struct seclock_client *client, const char *name,
                                             uint64_t generation, const char *request,
                                             int64_t *left_out)
{
    struct script_call call;
    struct redis_server *server;
    char random[LOCK_RANDOM_SIZE];
    enum seclock_result result = redis_kind_server(client, name, &server);
    if (result != SECLOCK_OK)
        return result;
    if (request && (request[0] == '\0' || strlen(request) >= SECLOCK_TOKEN_MAX))
        return lock_fail(SECLOCK_CONFIG, "a request has 1 to %d bytes", SECLOCK_TOKEN_MAX - 1);
    lock_random_text(random);
    redis_server_begin(server, &call, SCRIPT_lock_latch_down, name, "", KEYS);
    script_text(&call, request ? request : random);
    script_text(&call, random);
    script_int(&call, (int64_t)generation);
    redis_server_run(server, &call, 1, 0, SERVER_PIPELINE);
    result = redis_server_answer(&call, SECLOCK_CONFIG);
    if (result == SECLOCK_OK && left_out)
        *left_out = call.values[1];
    return result == SECLOCK_CONFIG ? redis_latch_refused(call.values[0]) : result;
}

/* ABSENT is not 0: an open latch stays at 0 until it is forgotten. */
static enum seclock_result count_of(struct redis_server *server, const char *name,
                                    int64_t *left_out)
{
    char key[SCRIPT_KEY_MAX];
    struct command command = {.argc = 2, .argv = {"GET", key}};
    redis_server_key(server, name, FIELD, key);
    enum seclock_result result = redis_server_commands(server, &command, 1);
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
    return result == SECLOCK_OK && *left_out == ABSENT ? redis_latch_refused(LATCH_NEVER_SET)
                                                       : result;
}

/* Reads the count after each message and at least every poll_ms: a latch that opens between the
 * first read and the subscription is seen by the second read. */
enum seclock_result seclock_latch_await(struct seclock_client *client,
                                        const struct seclock_request *request)
{
    UNCANCELLED;
    struct seclock_request latch;
    struct seclock_handle *handle = NULL;
    enum seclock_result result = lock_latch_read(&latch, request);
    if (result == SECLOCK_OK)
        result = lock_acquire(client, &latch, &handle);
    seclock_free(&handle);
    if (result == SECLOCK_BUSY || result == SECLOCK_TIMEOUT)
        return lock_fail(SECLOCK_TIMEOUT, "the latch is not open");
    return result;
}

/* ---- the driver ---- */

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
    .row =
        &(const struct redis_row){
            .field = FIELD,
            .message = "*",
            .others = {COUNTED, GENERATION},
            .steps = {.acquire = {SCRIPT_lock_latch_left, FIELD " " GENERATION, "g"},
                      .reads = true},
        },
    .open = redis_kind_open,
    .acquire = redis_kind_acquire,
    .wait = redis_kind_wait,
    .stop_waiting = redis_kind_stop_waiting,
    .step_call = redis_kind_call,
    .step_answer = redis_kind_answer,
    .wait_channel = redis_kind_channel,
    .status = latch_status,
    .break_lock = redis_kind_break,
    .check = redis_kind_check,
};
