/* Implements the Redis kinds whose steps are one script each, as rows of one table. The timestamp
 * lock and the latch share some of its functions. */
#include "lock/redis/kind.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lock/redis/pipeline.h"
#include "lock/redis/waiter.h"
#include "lock/text.h"

enum {
    RENEW_CHUNK = 32,
    RENEW_MS_MIN = 5,
    WAIT_MS_UNSUBSCRIBED = 50,
    REPEAT_MS_MAX = 5000,    /* within this time a release whose answer is lost is sent again */
    REMEMBER_MS_MAX = 60000, /* the longest time that it is remembered */
};

/* Answers of the scripts other than 0 and 1. */
enum { OWNER_READS = 2, TOO_FEW_PERMITS = 3, RELEASED_BEFORE = 4 };

static const struct redis_row *row_of(const struct seclock_handle *handle)
{
    const struct redis_row *row = handle->driver->row;
    assert(row && row->field);
    return row;
}

static const struct redis_steps *steps_of(const struct seclock_handle *handle)
{
    const struct redis_row *row = row_of(handle);
    return handle->mode == SECLOCK_MODE_READ ? row->read_steps : &row->steps;
}

/* The server belongs to the core, which also closes it. */
enum seclock_result redis_kind_open(struct lock_core *core, const char *server, void **self_out)
{
    (void)server;
    *self_out = core_redis(core);
    return *self_out ? SECLOCK_OK : SECLOCK_CONFIG;
}

/* ---- calls ---- */

/* Returns how long a waiter counts as alive after a try; 0: for ever. */
static int alive_ms(const struct seclock_handle *handle)
{
    const struct redis_row *row = row_of(handle);
    if (row->alive_ms_max == 0)
        return 0;
    int alive_ms = 3 * handle->core->options.poll_ms;
    alive_ms = alive_ms < row->alive_ms_min ? row->alive_ms_min : alive_ms;
    return alive_ms > row->alive_ms_max ? row->alive_ms_max : alive_ms;
}

/* why_the_rest_matters: the script keeps the released token for a repeat of this call. If the lease
 * has enough time left, the script just renames the lock's key; otherwise it has to write a copy
 * that lives long enough, and no longer. */
static bool rest_suffices(const struct seclock_handle *handle)
{
    int64_t left_ms = seclock_remaining_ms(handle);
    return left_ms > REPEAT_MS_MAX && left_ms < REMEMBER_MS_MAX;
}

/* Returns the text that a letter stands for; NULL: it stands for a number. */
static const char *text_argument(const struct seclock_handle *handle, char letter)
{
    switch (letter) {
    case 'o':
        return handle->owner;
    case 'r':
        return handle->request;
    case 'm':
        return row_of(handle)->message;
    case 't':
        return seclock_token(handle);
    case 'v':
        return handle->value;
    case 'P': /* only of a proclamation, not of a renewal that repeats it */
        return handle->proclaims && row_of(handle)->message[0] != '\0' ? "*" : "";
    default:
        return NULL;
    }
}

static int64_t number_argument(const struct seclock_handle *handle, char letter)
{
    switch (letter) {
    case 'l':
        return handle->lease_ms;
    case 'p':
        return handle->permits;
    case 'n':
        return handle->limit;
    case 'a':
        return alive_ms(handle);
    case 'A': /* only while it waits */
        return handle->waits ? alive_ms(handle) : 0;
    case 'w':
        return handle->waits;
    case 's':
        return rest_suffices(handle);
    case 'g':
        return (int64_t)handle->latch_generation;
    case 'F':
        return (int64_t)handle->fence;
    case 'N':
        return (int64_t)handle->value_number;
    default:
        assert(letter == 'f');
        return handle->fence == 0;
    }
}

static void step_begin(const struct redis_server *server, const struct seclock_handle *handle,
                       const struct redis_step *step, struct script_call *call_out)
{
    assert(step->keys);
    redis_server_begin(server, call_out, step->id, handle->name, handle->request, step->keys);
    for (const char *letter = step->arguments; *letter != '\0'; letter++) {
        const char *text = text_argument(handle, *letter);
        if (text)
            script_text(call_out, text);
        else
            script_int(call_out, number_argument(handle, *letter));
    }
}

/* Returns the step's place in the row; without `keys` there is no such step. */
static const struct redis_step *step_of(const struct seclock_handle *handle, enum lock_step step)
{
    const struct redis_steps *steps = steps_of(handle);
    switch (step) {
    case LOCK_ACQUIRE:
        return &steps->acquire;
    case LOCK_RENEW: /* keeps the record of a leader as long as the lock */
        return handle->value ? &steps->proclaim : &steps->renew;
    case LOCK_RELEASE:
        return &steps->release;
    default:
        return &steps->leave;
    }
}

bool redis_kind_call(void *self, const struct seclock_handle *handle, enum lock_step step,
                     struct script_call *call_out)
{
    const struct redis_step *row = step_of(handle, step);
    if (row->keys)
        step_begin(self, handle, row, call_out);
    return row->keys != NULL;
}

/* ---- answers ---- */

enum seclock_result redis_latch_refused(int64_t answer)
{
    if (answer == LATCH_SET_AGAIN)
        return lock_fail(SECLOCK_LOST, "the latch has been set again since");
    return lock_fail(SECLOCK_CONFIG, "the latch is not set");
}

/* Says in words why a script has refused; SECLOCK_BUSY: another holds the lock. */
static enum seclock_result refused(struct seclock_handle *handle, const struct script_call *call)
{
    switch (call->values[0]) {
    case OWNER_READS:
        return lock_fail(SECLOCK_DEADLOCK, "the owner reads: to write it would wait for itself");
    case TOO_FEW_PERMITS:
        return lock_fail(SECLOCK_CONFIG,
                         "the semaphore has fewer permits than wanted, or is not set");
    case RELEASED_BEFORE:
        return lock_fail(SECLOCK_FAILED, "the request was released before it came");
    case LATCH_NEVER_SET:
    case LATCH_SET_AGAIN:
        return redis_latch_refused(call->values[0]);
    default:
        handle->busy_ms = call->values[1];
        return SECLOCK_BUSY;
    }
}

static enum seclock_result acquire_answer(struct seclock_handle *handle,
                                          const struct script_call *call)
{
    bool owned = row_of(handle)->owned;
    enum seclock_result result = redis_server_answer(call, SECLOCK_BUSY);
    handle->token = owned ? NULL : handle->request;
    if (result == SECLOCK_OK) {
        handle->fence = (uint64_t)call->values[1];
        handle->hold_count = owned ? (int)call->values[2] : handle->permits;
    } else if (result == SECLOCK_FAILED && strstr(seclock_error(), ": WRONGTYPE")) {
        return SECLOCK_CONFIG; /* another program uses our key: waiting would not help */
    } else if (result == SECLOCK_UNKNOWN && steps_of(handle)->reads) {
        return SECLOCK_FAILED;
    }
    return result == SECLOCK_BUSY ? refused(handle, call) : result;
}

/* A hold whose acquisition was not answered learns its fence from its first renewal. */
static enum seclock_result renew_answer(struct seclock_handle *handle,
                                        const struct script_call *call)
{
    enum seclock_result result = redis_server_answer(call, SECLOCK_LOST);
    if (result == SECLOCK_OK && handle->fence == 0)
        handle->fence = (uint64_t)call->values[1];
    if (result == SECLOCK_LOST && call->values[1] == 1)
        handle_keep_loss(handle, SECLOCK_LOSS_TAKEN);
    return result;
}

enum seclock_result redis_kind_answer(struct seclock_handle *handle, enum lock_step step,
                                      const struct script_call *call)
{
    if (step == LOCK_ACQUIRE)
        return acquire_answer(handle, call);
    return step == LOCK_RENEW ? renew_answer(handle, call)
                              : redis_server_answer(call, SECLOCK_LOST);
}

/* ---- steps that wait for their answer ---- */

/* Runs a step within the time of the handle's acquisition, if that is under way. */
static enum seclock_result step_run(struct redis_server *server, struct seclock_handle *handle,
                                    enum lock_step step, enum redis_server_way way)
{
    struct script_call call;
    int limit_ms =
        handle->until_ns == 0 ? 0 : handle_request_ms(handle, redis_server_timeout_ms(server));
    step_begin(server, handle, step_of(handle, step), &call);
    redis_server_run(server, &call, 1, limit_ms, way);
    return redis_kind_answer(handle, step, &call);
}

enum seclock_result redis_kind_acquire(void *self, struct seclock_handle *handle)
{
    return step_run(self, handle, LOCK_ACQUIRE, SERVER_PIPELINE);
}

static void renew_chunk(struct redis_server *server, struct seclock_handle *const *handles,
                        size_t count, enum seclock_result *results_out)
{
    struct script_call calls[RENEW_CHUNK];
    assert(count > 0 && count <= RENEW_CHUNK);
    for (size_t i = 0; i < count; i++)
        step_begin(server, handles[i], step_of(handles[i], LOCK_RENEW), &calls[i]);
    redis_server_run(server, calls, count,
                     handle_renewal_ms(handles, count, RENEW_MS_MIN, SECLOCK_LEASE_MS_MAX),
                     SERVER_PIPELINE);
    for (size_t i = 0; i < count; i++)
        results_out[i] = renew_answer(handles[i], &calls[i]);
}

static void redis_renew(void *self, struct seclock_handle *const *handles, size_t count,
                        enum seclock_result *results_out)
{
    for (size_t done = 0, chunk; done < count; done += chunk) {
        chunk = count - done < RENEW_CHUNK ? count - done : RENEW_CHUNK;
        renew_chunk(self, handles + done, chunk, results_out + done);
    }
}

static enum seclock_result redis_proclaim(void *self, struct seclock_handle *handle)
{
    assert(handle->value);
    return step_run(self, handle, LOCK_RENEW, SERVER_PIPELINE);
}

static enum seclock_result redis_release(void *self, struct seclock_handle *handle)
{
    bool publishes = row_of(handle)->message[0] != '\0';
    return step_run(self, handle, LOCK_RELEASE, publishes ? SERVER_PUBLISHING : SERVER_PIPELINE);
}

/* ---- waiting ---- */

/* A waiter that counts as alive for some time tries again before that ends, with random jitter. */
void redis_kind_channel(void *self, const struct seclock_handle *handle, int *wait_ms,
                        char channel_out[LOCK_CHANNEL_MAX])
{
    const struct redis_row *row = row_of(handle);
    int most_ms = alive_ms(handle) / 3;
    if (handle->observes) {
        redis_kind_leader_key(row, self, handle->name, channel_out);
        return;
    }
    redis_server_key(self, handle->name, row->field, channel_out);
    if (row->queue)
        snprintf(channel_out + strlen(channel_out), SECLOCK_TOKEN_MAX, ":%.*s",
                 SECLOCK_TOKEN_MAX - 2, handle->request);
    if (most_ms > 0)
        most_ms -= (int)lock_random((unsigned)most_ms / 10 + 1);
    if (most_ms > 0 && most_ms < *wait_ms)
        *wait_ms = most_ms;
}

/* A waiter that wants several permits passes a wake-up on, because the returned permit may be
 * enough for another one. Without memory or descriptors for a subscription it polls every 50 ms. */
void redis_kind_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    assert(wait_ms >= 0);
    char channel[LOCK_CHANNEL_MAX];
    redis_kind_channel(self, handle, &wait_ms, channel);
    if (handle->waiting && handle->permits > 1)
        waiter_pass(handle->waiting);
    handle->waiting =
        waiter_join(handle->waiting, redis_server_waiters(self, channel), channel, NULL);
    if (handle->waiting)
        waiter_sleep(handle->waiting, wait_ms, handle->cancel_fd);
    else
        handle_sleep(handle, wait_ms < WAIT_MS_UNSUBSCRIBED ? wait_ms : WAIT_MS_UNSUBSCRIBED);
}

/* The last waiter of a channel unsubscribes it. */
void redis_kind_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    struct waiter *waiter = handle->waiting;
    handle->waiting = NULL;
    if (waiter)
        waiter_leave(&waiter, acquired);
    if (!acquired && step_of(handle, LOCK_LEAVE)->keys)
        step_run(self, handle, LOCK_LEAVE, SERVER_PUBLISHING);
}

/* ---- for operators ---- */

/* Wakes the head of a queue on its own channel, as it would wait until its next try. */
enum seclock_result redis_kind_break(const struct lock_driver *driver, void *self, const char *name)
{
    const struct redis_row *row = driver->row;
    enum { OTHERS_MAX = sizeof row->others / sizeof row->others[0] };
    char keys[1 + OTHERS_MAX][SCRIPT_KEY_MAX], queue[SCRIPT_KEY_MAX];
    char channel[SCRIPT_KEY_MAX + SECLOCK_TOKEN_MAX];
    struct command commands[] = {{.argc = 2, .argv = {"DEL", keys[0]}},
                                 {.argc = 3, .argv = {"LINDEX", queue, "0"}}};
    size_t count = row->queue ? 2 : 1;
    redis_server_key(self, name, row->field, keys[0]);
    redis_server_key(self, name, row->queue ? row->queue : "", queue);
    for (int i = 0; i < OTHERS_MAX && row->others[i]; i++) {
        redis_server_key(self, name, row->others[i], keys[1 + i]);
        assert(commands[0].argc < COMMAND_ARGS_MAX);
        commands[0].argv[commands[0].argc++] = keys[1 + i];
    }
    bool repeated;
    enum seclock_result result = redis_server_change(self, commands, count, &repeated);
    const char *head = row->queue ? command_text(&commands[1], -1, NULL) : NULL;
    if (head)
        snprintf(channel, sizeof channel, "%s:%.*s", keys[0], SECLOCK_TOKEN_MAX - 2, head);
    if (result == SECLOCK_OK)
        redis_server_tell(self, head ? channel : keys[0], row->message[0] == '*' ? "*" : "1");
    if (result == SECLOCK_OK && command_int(&commands[0], -1) == 0)
        result = lock_none_held(repeated);
    command_clear(commands, count);
    return result;
}

void redis_kind_leader_key(const struct redis_row *row, const struct redis_server *server,
                           const char *name, char key_out[SCRIPT_KEY_MAX])
{
    char field[LOCK_FIELD_MAX];
    snprintf(field, sizeof field, "%s:leader", row->field);
    redis_server_key(server, name, field, key_out);
}

/* why_no_script: the record is read first. If its hold still stands when the lock is read after
 * that, it stood then as well, because no hold comes back. */
enum seclock_result redis_kind_leader(const struct lock_driver *driver, void *self,
                                      const char *name, struct seclock_leader *leader_out)
{
    const struct redis_row *row = driver->row;
    char record[SCRIPT_KEY_MAX], lock[SCRIPT_KEY_MAX];
    struct command commands[] = {{.argc = 5, .argv = {"HMGET", record, "f", "t", "v"}},
                                 {.argc = 2, .argv = {"GET", lock}}};
    redis_kind_leader_key(row, self, name, record);
    redis_server_key(self, name, row->field, lock);
    if (row->owned)
        commands[1] = (struct command){.argc = 3, .argv = {"HGET", lock, "f"}};
    enum seclock_result result = redis_server_commands(self, commands, 2);
    const char *stands = command_text(&commands[1], -1, NULL);
    const char *colon = stands ? strchr(stands, ':') : NULL; /* the timestamp's expiry:token */
    const char *proclaimed = command_text(&commands[0], row->owned ? 0 : 1, NULL);
    const char *token = command_text(&commands[0], 1, NULL);
    const char *value = command_text(&commands[0], 2, NULL);
    if (result == SECLOCK_OK && stands && proclaimed && token && value &&
        strcmp(proclaimed, colon ? colon + 1 : stands) == 0) {
        leader_out->led = true;
        leader_out->term = (uint64_t)command_int(&commands[0], 0);
        snprintf(leader_out->holder, sizeof leader_out->holder, "%s", token);
        snprintf(leader_out->value, sizeof leader_out->value, "%s", value);
    }
    command_clear(commands, 2);
    return result;
}

/* Reads the status of a sorted set of holds: the last one to end, and their number. Holds that have
 * ended do not count. */
static enum seclock_result set_status(const struct redis_row *row, struct redis_server *server,
                                      const char *name, struct seclock_status *status)
{
    assert(!status->held);
    char holds[SCRIPT_KEY_MAX];
    size_t length = 0;
    struct command commands[] = {{.argc = 5, .argv = {"ZRANGE", holds, "-1", "-1", "WITHSCORES"}},
                                 {.argc = 2, .argv = {"ZCARD", holds}},
                                 {.argc = 1, .argv = {"TIME"}}};
    redis_server_key(server, name, row->holds, holds);
    enum seclock_result result = redis_server_commands(server, commands, 3);
    const char *last = command_text(&commands[0], 0, &length);
    int64_t now_ms = command_int(&commands[2], 0) * 1000 + command_int(&commands[2], 1) / 1000;
    int64_t left_ms = command_int(&commands[0], 1) - now_ms;
    if (result == SECLOCK_OK && last && left_ms > 0) {
        status->held = true;
        status->mode = row->read_steps ? SECLOCK_MODE_READ : SECLOCK_MODE_WRITE;
        status->remaining_ms = left_ms;
        status->count = command_int(&commands[1], -1);
        for (size_t i = 0; i < length && i + 1 < sizeof status->holder && last[i] != row->mark; i++)
            status->holder[i] = last[i];
    }
    command_clear(commands, 3);
    return result;
}

/* Reads the status of a string or a hash, all of whose fields but `o` and `f` are holds, and the
 * lock's other keys. Shows the fence of a free lock as well, because it outlives the hold. The
 * commands are not atomic together: an operator may see a mix of old and new values. Shows a writer
 * first, because it excludes readers of other owners. */
enum seclock_result redis_kind_status(const struct lock_driver *driver, void *self,
                                      const char *name, struct seclock_status *status_out)
{
    const struct redis_row *row = driver->row;
    char lock[SCRIPT_KEY_MAX], fence[SCRIPT_KEY_MAX], other[SCRIPT_KEY_MAX];
    struct command commands[5] = {{.argc = 2, .argv = {"GET", fence}}};
    size_t count = 1;
    bool in_key = row->owned || !row->holds;
    redis_server_key(self, name, row->field, lock);
    redis_server_key(self, name, "fence", fence);
    if (row->limit || row->queue) {
        redis_server_key(self, name, row->limit ? row->limit : row->queue, other);
        commands[count++] =
            (struct command){.argc = 2, .argv = {row->limit ? "GET" : "LLEN", other}};
    }
    const struct command *holder = &commands[count], *ttl = holder + 1, *fields = holder + 2;
    if (in_key) {
        commands[count++] = row->owned ? (struct command){.argc = 3, .argv = {"HGET", lock, "o"}}
                                       : (struct command){.argc = 2, .argv = {"GET", lock}};
        commands[count++] = (struct command){.argc = 2, .argv = {"PTTL", lock}};
    }
    if (row->owned)
        commands[count++] = (struct command){.argc = 2, .argv = {"HLEN", lock}};
    enum seclock_result result = redis_server_commands(self, commands, count);
    const char *text = in_key ? command_text(holder, -1, NULL) : NULL;
    if (result == SECLOCK_OK) {
        status_out->fence = (uint64_t)command_int(&commands[0], -1);
        if (row->limit)
            status_out->limit = command_int(&commands[1], -1);
        if (row->queue)
            status_out->waiting = command_int(&commands[1], -1);
    }
    if (result == SECLOCK_OK && text) {
        status_out->held = true;
        snprintf(status_out->holder, sizeof status_out->holder, "%s", text);
        status_out->count = row->owned ? command_int(fields, -1) - 2 : 1;
        status_out->remaining_ms = command_int(ttl, -1);
    }
    command_clear(commands, count);
    return result == SECLOCK_OK && row->holds && !status_out->held
               ? set_status(row, self, name, status_out)
               : result;
}

/* Warns of an evicting server: it may drop a held lock, unnoticed until the next renewal. */
enum seclock_result redis_kind_check(void *self, char *warning_out, size_t size)
{
    struct command command = {.argc = 3, .argv = {"CONFIG", "GET", "maxmemory-policy"}};
    enum seclock_result result = redis_server_commands(self, &command, 1);
    const char *policy = command_text(&command, 1, NULL);
    if (policy && strcmp(policy, "noeviction") != 0)
        snprintf(warning_out, size, "Redis may evict locks: maxmemory-policy is %s, not noeviction",
                 policy);
    command_clear(&command, 1);
    return result == SECLOCK_UNKNOWN ? SECLOCK_UNKNOWN : SECLOCK_OK; /* CONFIG may be forbidden */
}

enum seclock_result redis_kind_server(struct seclock_client *client, const char *name,
                                      struct redis_server **server_out)
{
    const struct lock_driver *driver;
    void *server = NULL;
    enum seclock_result result = client_lock(client, SECLOCK_KIND_SIMPLE, name, &driver, &server);
    *server_out = server;
    return result;
}

/* Wakes all waiters, because there may be more permits now. */
static enum seclock_result permits_set_limit(const struct lock_driver *driver, void *self,
                                             const char *name, int limit)
{
    assert(limit > 0);
    const struct redis_row *row = driver->row;
    char permits[SCRIPT_KEY_MAX], key[SCRIPT_KEY_MAX], number[16];
    struct command set = {.argc = 5, .argv = {"SET", key, number, "EX", "604800"}};
    snprintf(number, sizeof number, "%d", limit);
    redis_server_key(self, name, row->field, permits);
    redis_server_key(self, name, row->limit, key);
    bool repeated;
    enum seclock_result result = redis_server_change(self, &set, 1, &repeated);
    command_clear(&set, 1);
    if (result == SECLOCK_OK)
        redis_server_tell(self, permits, "*");
    return result;
}

/* ---- the kinds ---- */

#define DRIVER(id)                                                                                 \
    .kind = SECLOCK_KIND_##id, .open = redis_kind_open, .acquire = redis_kind_acquire,             \
    .renew = redis_renew, .release = redis_release, .status = redis_kind_status,                   \
    .break_lock = redis_kind_break, .check = redis_kind_check, .step_call = redis_kind_call,       \
    .step_answer = redis_kind_answer
#define ELECTS .proclaim = redis_proclaim, .leader = redis_kind_leader
#define SUBSCRIBES                                                                                 \
    .wait = redis_kind_wait, .stop_waiting = redis_kind_stop_waiting,                              \
    .wait_channel = redis_kind_channel

/* The step of any kind with one holder, whether its lock is a string or a hash. */
#define PROCLAIM(field)                                                                            \
    {                                                                                              \
        SCRIPT_lock_proclaim, field " " field ":leader", "rlFNtvP"                                 \
    }

/* Locks that are one string, the holder's token: SET NX PX with a fence, compare and delete. */
#define STRING_STEPS(field)                                                                        \
    {                                                                                              \
        .acquire = {SCRIPT_lock_acquire, field " fence ~", "rl"},                                  \
        .renew = {SCRIPT_lock_renew, field " fence", "rl"},                                        \
        .release = {SCRIPT_lock_release, field " ~", "rms"}, .proclaim = PROCLAIM(field),          \
    }

const struct lock_driver redis_simple_driver = {
    DRIVER(SIMPLE),
    ELECTS,
    SUBSCRIBES,
    .features = LOCK_RENEWS,
    .row =
        &(const struct redis_row){.field = "lock", .message = "1", .steps = STRING_STEPS("lock")},
};

/* A release publishes nothing: the waiters try again after a delay that doubles up to a limit, with
 * jitter. */
const struct lock_driver redis_spin_driver = {
    DRIVER(SPIN),
    ELECTS,
    .features = LOCK_RENEWS,
    .poll_ms_min = 1,
    .poll_ms_max = 128,
    .row = &(const struct redis_row){.field = "spin", .message = "", .steps = STRING_STEPS("spin")},
};

/* Locks that are one hash, with the owner, the fence and a field for each hold. All holds share one
 * time to live, so a renewal only ever lengthens it: another hold may have asked for a longer
 * lease. A re-entry keeps the fence of the first hold: the owner writes with one fence, however
 * deep its calls nest. The scripts remember the released request, so that a repeat is not taken for
 * a lost hold. */
const struct lock_driver redis_reentrant_driver = {
    DRIVER(REENTRANT),
    ELECTS,
    SUBSCRIBES,
    .features = LOCK_RENEWS,
    .row =
        &(const struct redis_row){
            .field = "reentrant",
            .message = "1",
            .owned = true,
            .steps = {.acquire = {SCRIPT_lock_reenter, "reentrant fence ~", "orl"},
                      .renew = {SCRIPT_lock_reenter_renew, "reentrant", "rl"},
                      .release = {SCRIPT_lock_reenter_release, "reentrant ~", "rm"},
                      .proclaim = PROCLAIM("reentrant")},
        },
};

/* First come, first served: a hash as above, a list of the waiters, and the time until which each
 * waiter counts as alive, which each of its tries extends. So a dead waiter does not hold up the
 * queue for long: the next caller that tries drops it. Each waiter has its own channel, so that a
 * release wakes only the next one. One script releases a hold or leaves the queue, whichever the
 * request has, and wakes the next waiter if the lock is free for it. */
const struct lock_driver redis_fair_driver = {
    DRIVER(FAIR),
    ELECTS,
    SUBSCRIBES,
    .features = LOCK_RENEWS,
    .row =
        &(const struct redis_row){
            .field = "fair",
            .message = "1",
            .owned = true,
            .queue = "fair:queue",
            .alive_ms_min = 300,
            .alive_ms_max = 1500,
            .steps = {.acquire = {SCRIPT_lock_fair, "fair fair:queue fair:alive fence ~", "orlaw"},
                      .renew = {SCRIPT_lock_reenter_renew, "fair", "rl"},
                      .release = {SCRIPT_lock_fair_leave, "fair fair:queue fair:alive ~", "r"},
                      .leave = {SCRIPT_lock_fair_leave, "fair fair:queue fair:alive ~", "r"},
                      .proclaim = PROCLAIM("fair")},
        },
};

/* Many readers or one writer. The writer is a hash as above; the readers are a sorted set in which
 * each hold has its own end, so that a dead reader does not live on while others renew. A waiting
 * writer's mark keeps new readers out for 3 s after its last try. The mark goes when the writer
 * gives up, and with its lock, so that waiting readers have their turn before the next writer. A
 * reader that asks to write is refused, because it would wait for its own read hold to end. */
#define RW_KEYS "write readers readers:owners"

const struct lock_driver redis_rw_driver = {
    DRIVER(READ_WRITE),
    ELECTS,
    SUBSCRIBES,
    .features = LOCK_RENEWS | LOCK_READS,
    .row =
        &(const struct redis_row){
            .field = "write",
            .message = "*",
            .others = {"readers", "readers:owners", "write:waits"},
            .owned = true,
            .holds = "readers",
            .mark = '/',
            .alive_ms_min = 3000,
            .alive_ms_max = 3000,
            .steps = {.acquire = {SCRIPT_lock_write, RW_KEYS " write:waits fence ~", "orlA"},
                      .renew = {SCRIPT_lock_reenter_renew, "write", "rl"},
                      .release = {SCRIPT_lock_reenter_release, "write ~ write:waits", "rm"},
                      .leave = {SCRIPT_lock_write_leave, "write write:waits", "r"},
                      .proclaim = PROCLAIM("write")},
            .read_steps =
                &(const struct redis_steps){
                    .acquire = {SCRIPT_lock_read, RW_KEYS " write:waits fence ~", "orl"},
                    .renew = {SCRIPT_lock_read_renew, "readers readers:owners fence", "orl"},
                    .release = {SCRIPT_lock_read_release, RW_KEYS " ~", "or"},
                },
        },
};

/* Up to N permits in a sorted set, each with its own end, so that a dead holder's permits come back
 * by themselves. The limit of a request counts only if none is set: the first caller sets it, and
 * later callers agree with it or wait. A release publishes how many permits came back, so that as
 * many waiters wake.
 *
 * A `semaphore` renews its permits while their holder lives; a `permit` ends at a fixed time, and
 * anybody can release it by id. */
#define PERMITS_ROW(permits)                                                                       \
    {                                                                                              \
        .field = permits, .message = "*", .holds = permits, .mark = '#',                           \
        .limit = permits ":limit",                                                                 \
        .steps = {                                                                                 \
            .acquire = {SCRIPT_lock_permits, permits " " permits ":limit fence ~", "rlpn"},        \
            .renew = {SCRIPT_lock_permits_renew, permits " fence", "rlf"},                         \
            .release = {SCRIPT_lock_permits_release, permits " ~", "r"},                           \
        },                                                                                         \
    }

const struct lock_driver redis_semaphore_driver = {
    DRIVER(SEMAPHORE),
    SUBSCRIBES,
    .features = LOCK_RENEWS | LOCK_PERMITTED,
    .row = &(const struct redis_row)PERMITS_ROW("semaphore"),
    .set_limit = permits_set_limit,
};

const struct lock_driver redis_permit_driver = {
    DRIVER(PERMIT),
    SUBSCRIBES,
    .features = LOCK_PERMITTED,
    .row = &(const struct redis_row)PERMITS_ROW("permit"),
    .set_limit = permits_set_limit,
};

/* ---- permits by their id ---- */

/* A permit is released without a handle: its id alone grants the right. */
static enum seclock_result permit_find(struct seclock_client *client, const char *name,
                                       const char *id, struct redis_server **server_out,
                                       struct seclock_handle *permit_out)
{
    enum seclock_result result = redis_kind_server(client, name, server_out);
    if (result != SECLOCK_OK)
        return result;
    if (id[0] == '\0' || strlen(id) >= SECLOCK_TOKEN_MAX)
        return lock_fail(SECLOCK_CONFIG, "not the id of a permit");
    strcpy(permit_out->name, name);
    strcpy(permit_out->request, id);
    return SECLOCK_OK;
}

enum seclock_result seclock_permit_release(struct seclock_client *client, const char *name,
                                           const char *id)
{
    struct redis_server *server;
    struct seclock_handle permit = {.driver = &redis_permit_driver};
    enum seclock_result result = permit_find(client, name, id, &server, &permit);
    return result == SECLOCK_OK ? redis_release(server, &permit) : result;
}

enum seclock_result seclock_permit_extend(struct seclock_client *client, const char *name,
                                          const char *id, int lease_ms)
{
    struct redis_server *server;
    struct seclock_handle permit = {.driver = &redis_permit_driver};
    enum seclock_result result = permit_find(client, name, id, &server, &permit);
    if (result != SECLOCK_OK)
        return result;
    if (lease_ms < SECLOCK_LEASE_MS_MIN || lease_ms > SECLOCK_LEASE_MS_MAX)
        return lock_fail(SECLOCK_CONFIG, "lease out of range");
    permit.lease_ms = lease_ms;
    permit.fence = 1; /* the script need not give it one */
    return step_run(server, &permit, LOCK_RENEW, SERVER_PIPELINE);
}
