/* lock/seclock.h for the locks of a whole sale, and lock/process.h, over the simulated Redis; and
 * guard locks, over a server of their own.
 *
 * The locks of single segments (lock/redis/pipeline.c) are the project's own. Here are the multi
 * lock and the watchdog that renews it, which in the project are threads, the lock of the strategy
 * single_lock, and a lock with a lease that stands for whatever server a guard lock has. */
#include "lock/seclock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/client.h"
#include "lock/handle.h"
#include "lock/redis/pipeline.h"
#include "lua/script.h"
#include "test/simulate/machine/chance.h"
#include "test/simulate/machine/loop.h"
#include "test/simulate/servers/seam_lock.h"
#include "test/simulate/servers/seam_redis.h"
#include "test/simulate/story.h"

enum { POLL_MS = 5, GUARDS_MAX = 16, TRIP_US_MAX = 300 };

struct seclock_client {
    struct lock_core core;
    struct redis *redis;
    struct redis *renewals; /* the watchdog's connection */
    char prefix[SECLOCK_PREFIX_MAX];
    int lease_ms, timeout_ms;
};

/* A guard lock, as its server has it. */
struct guard {
    char name[SECLOCK_NAME_MAX], holder[LOCK_RANDOM_SIZE];
    int64_t until_ns;
};

static uint32_t tokens;
static const struct lock_driver simple = {.kind = SECLOCK_KIND_SIMPLE};
static const struct lock_driver guarding = {.kind = SECLOCK_KIND_TABLE};
static struct guard guards[GUARDS_MAX];
static size_t guard_count;

void seam_lock_begin(void)
{
    tokens = 0;
    guard_count = 0;
}

void lock_random_text(char text_out[LOCK_RANDOM_SIZE])
{
    snprintf(text_out, LOCK_RANDOM_SIZE, "token%u", ++tokens);
}

int64_t handle_valid_ns(int lease_ms)
{
    return ((int64_t)lease_ms * 99 / 100 - 2) * CLOCK_NS_PER_MS;
}

enum seclock_result seclock_open(const struct seclock_options *options,
                                 struct seclock_client **client_out)
{
    char error[64];
    struct seclock_client *client = calloc(1, sizeof *client);
    strcpy(client->prefix, options->prefix);
    client->lease_ms = options->lease_ms;
    client->timeout_ms = options->timeout_ms;
    client->core.options.prefix = client->prefix;
    client->redis = redis_open(options->servers[0], options->timeout_ms, error, sizeof error);
    client->renewals = redis_open(options->servers[0], options->timeout_ms, error, sizeof error);
    *client_out = client;
    return SECLOCK_OK;
}

const char *seclock_error(void)
{
    return "";
}

void seclock_close(struct seclock_client **client)
{
    *client = NULL;
}

/* ---- one lock ---- */

static void begin_call(struct script_call *call, enum script_id id,
                       const struct seclock_handle *handle, bool with_fence)
{
    char key[SCRIPT_KEY_MAX];
    const char *prefix = handle->core->options.prefix;
    script_begin(call, id);
    lock_redis_key(prefix, handle->name, "lock", key);
    script_key(call, key);
    lock_redis_key(prefix, handle->name, "fence", key);
    if (with_fence)
        script_key(call, key);
    script_text(call, handle->request);
}

/* An acquisition that was not answered is repeated with the same token, as the library does. */
static enum seclock_result acquire(struct seclock_client *client, struct seclock_handle *handle)
{
    struct script_call call;
    begin_call(&call, SCRIPT_lock_acquire, handle, true);
    script_int(&call, handle->lease_ms);
    int64_t sent_ns = clock_now_ns();
    script_run(client->redis, &call, 1);
    if (call.result != REDIS_ANSWERED)
        return call.result == REDIS_UNKNOWN ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
    if (call.values[0] != 1)
        return SECLOCK_BUSY;
    handle->fence = (uint64_t)call.values[1];
    handle->deadline_ns = sent_ns + handle_valid_ns(handle->lease_ms);
    handle->state = SECLOCK_STATE_HELD;
    return SECLOCK_OK;
}

static enum seclock_result acquire_until(struct seclock_client *client,
                                         struct seclock_handle *handle, int64_t until_ns)
{
    for (;;) {
        enum seclock_result result = acquire(client, handle);
        if (result == SECLOCK_OK)
            return SECLOCK_OK;
        if (clock_now_ns() >= until_ns)
            return result == SECLOCK_BUSY ? SECLOCK_TIMEOUT : result;
        clock_sleep_ns(POLL_MS * CLOCK_NS_PER_MS);
    }
}

static void release(struct seclock_client *client, struct seclock_handle *handle)
{
    struct script_call call;
    begin_call(&call, SCRIPT_lock_release, handle, false);
    script_text(&call, "1");
    script_run(client->redis, &call, 1);
    handle->state = SECLOCK_STATE_RELEASED;
    handle->renews = false;
}

/* ---- guard locks ---- */

static struct guard *guard_of(const char *name)
{
    for (size_t i = 0; i < guard_count; i++)
        if (strcmp(guards[i].name, name) == 0)
            return &guards[i];
    assert(guard_count < GUARDS_MAX);
    struct guard *guard = &guards[guard_count++];
    memset(guard, 0, sizeof *guard);
    strcpy(guard->name, name);
    return guard;
}

static int64_t trip_ns(void)
{
    return (int64_t)(20 + chance_delay(TRIP_US_MAX)) * 1000;
}

/* It never waits: BUSY, OK, or a failure. Whose answer is lost may hold it until its lease ends. */
static enum seclock_result acquire_guard(struct seclock_client *client,
                                         struct seclock_handle *handle)
{
    int64_t sent_ns = clock_now_ns();
    if (chance_strikes(FAULT_GUARD_LOST)) {
        task_sleep(client->timeout_ms * LOOP_MS);
        return SECLOCK_FAILED;
    }
    task_travel(trip_ns());
    if (chance_strikes(FAULT_GUARD_EMPTY))
        guard_count = 0;
    struct guard *guard = guard_of(handle->name);
    bool busy = guard->until_ns > loop_now_ns();
    if (!busy) {
        strcpy(guard->holder, handle->request);
        guard->until_ns = loop_now_ns() + handle->lease_ms * LOOP_MS;
    }
    if (chance_strikes(FAULT_GUARD_ANSWER_LOST)) {
        task_sleep(client->timeout_ms * LOOP_MS);
        return SECLOCK_UNKNOWN;
    }
    task_sleep(trip_ns());
    handle->deadline_ns = sent_ns + handle_valid_ns(handle->lease_ms);
    handle->state = SECLOCK_STATE_HELD;
    story("    guard lock %s: %s", handle->name, busy ? "busy" : "taken");
    return busy ? SECLOCK_BUSY : SECLOCK_OK;
}

static void release_guard(struct seclock_handle *handle)
{
    handle->state = SECLOCK_STATE_RELEASED;
    task_travel(trip_ns());
    if (chance_strikes(FAULT_GUARD_LOST))
        return;
    struct guard *guard = guard_of(handle->name);
    if (strcmp(guard->holder, handle->request) == 0)
        guard->until_ns = 0;
    task_sleep(trip_ns());
}

/* ---- the watchdog ---- */

struct renewal {
    struct seclock_client *client;
    struct seclock_handle *handle;
    struct process *process;
    uint32_t incarnation;
};

/* Nobody waits for the answer: what it would say the next renewal, or the ledger, says as well. */
static void renew(void *argument, uint32_t tag)
{
    struct renewal *renewal = argument;
    struct seclock_handle *handle = renewal->handle;
    struct process *process = renewal->process;
    (void)tag;
    if (!process->alive || process->incarnation != renewal->incarnation || !handle->renews)
        return;
    int64_t now_ns = loop_now_ns();
    bool asleep = process->asleep_until_ns > now_ns;
    if (!asleep && !chance_strikes(FAULT_RENEWAL_LOST)) {
        struct script_call call;
        begin_call(&call, SCRIPT_lock_renew, handle, false);
        script_int(&call, handle->lease_ms);
        seam_redis_post(renewal->client->renewals, &call);
        handle->deadline_ns = now_ns + handle_valid_ns(handle->lease_ms);
    }
    loop_at(asleep ? process->asleep_until_ns : now_ns + handle->lease_ms * LOOP_MS / 3, renew,
            renewal, 0);
}

static void watch(struct seclock_client *client, struct seclock_handle *handle)
{
    struct task *task = task_current();
    struct renewal *renewal = calloc(1, sizeof *renewal);
    *renewal = (struct renewal){client, handle, task->process, task->process->incarnation};
    handle->renews = true;
    loop_at(loop_now_ns() + handle->lease_ms * LOOP_MS / 3, renew, renewal, 0);
}

/* ---- one lock, as clients of the library take it ---- */

static struct seclock_handle *make_handle(struct seclock_client *client,
                                          const struct seclock_request *request,
                                          const struct lock_driver *driver)
{
    struct seclock_handle *handle = calloc(1, sizeof *handle);
    handle->core = &client->core;
    handle->driver = driver;
    handle->self = client;
    handle->now_ns = clock_now_ns;
    handle->lease_ms = client->lease_ms;
    strcpy(handle->name, request->name);
    lock_random_text(handle->request);
    return handle;
}

enum seclock_result seclock_acquire(struct seclock_client *client,
                                    const struct seclock_request *request,
                                    struct seclock_handle **handle_out)
{
    bool plain = request->kind == SECLOCK_KIND_SIMPLE;
    struct seclock_handle *handle = make_handle(client, request, plain ? &simple : &guarding);
    int64_t until_ns = clock_now_ns() + request->wait_ms * CLOCK_NS_PER_MS;
    enum seclock_result result =
        plain ? acquire_until(client, handle, until_ns) : acquire_guard(client, handle);
    bool kept = result == SECLOCK_OK || result == SECLOCK_UNKNOWN;
    if (result == SECLOCK_TIMEOUT && request->wait_ms == 0)
        result = SECLOCK_BUSY;
    if (result == SECLOCK_UNKNOWN)
        handle->state = SECLOCK_STATE_UNKNOWN;
    if (result == SECLOCK_OK && !request->fixed_lease)
        watch(client, handle);
    *handle_out = kept ? handle : NULL;
    return result;
}

/* What is proclaimed only operators read. */
enum seclock_result seclock_campaign(struct seclock_client *client,
                                     const struct seclock_request *request, const char *value,
                                     struct seclock_handle **handle_out)
{
    assert(value[0] != '\0');
    return seclock_acquire(client, request, handle_out);
}

enum seclock_result seclock_release(struct seclock_handle *handle)
{
    if (!handle)
        return SECLOCK_NOT_OWNER;
    if (handle->driver == &guarding)
        release_guard(handle);
    else
        release(handle->self, handle);
    return SECLOCK_OK;
}

void seclock_free(struct seclock_handle **handle)
{
    if (*handle)
        (*handle)->renews = false;
    *handle = NULL;
}

const char *seclock_name(const struct seclock_handle *handle)
{
    return handle->name;
}

uint64_t seclock_fence(const struct seclock_handle *handle)
{
    return handle->fence;
}

/* ---- several locks ---- */

enum seclock_result seclock_multi_acquire(const struct seclock_multi *multi,
                                          struct seclock_handle **handles_out)
{
    struct seclock_client *client = multi->client;
    size_t count = multi->count;
    int64_t until_ns = clock_now_ns() + multi->wait_ms * CLOCK_NS_PER_MS;
    enum seclock_result result = SECLOCK_OK;
    for (size_t i = 0; i < count; i++)
        handles_out[i] = NULL;
    for (size_t i = 0; i < count && result == SECLOCK_OK; i++) {
        struct seclock_handle *handle = make_handle(client, multi->requests[i], &simple);
        handles_out[i] = handle;
        result = acquire_until(client, handle, until_ns);
        if (result == SECLOCK_OK)
            watch(client, handle);
    }
    for (size_t i = 0; i < count && result == SECLOCK_OK; i++)
        if (seclock_state(handles_out[i]) != SECLOCK_STATE_HELD)
            result = SECLOCK_LOST;
    for (size_t i = 0; i < count && result != SECLOCK_OK; i++)
        if (handles_out[i])
            release(client, handles_out[i]);
    if (result != SECLOCK_OK)
        seclock_multi_free(handles_out, count);
    return result;
}

void seclock_multi_free(struct seclock_handle **handles, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (handles[i])
            handles[i]->renews = false;
        handles[i] = NULL;
    }
}

enum seclock_state seclock_state(const struct seclock_handle *handle)
{
    enum seclock_state state = (enum seclock_state)handle->state;
    bool over = state == SECLOCK_STATE_HELD && loop_now_ns() >= handle->deadline_ns;
    return over ? SECLOCK_STATE_LOST : state;
}
