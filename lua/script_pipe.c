/* Sends the script calls of a loop without waiting, and takes their replies as they come. */
#include "lua/script_pipe.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lua/redis.h"

static const char no_reply[] = "no reply in time";

TAILQ_HEAD(sendings, script_sending);

struct script_pipe {
    struct redis *redis;
    int timeout_ms;
    bool connecting;         /* another thread has the connection */
    bool failed;             /* the last connect did */
    struct sendings waiting; /* for a connection */
    struct sendings sent;    /* in the order of their replies */
    int64_t due_ms;          /* no call is late before this */
};

struct script_pipe *script_pipe_open(const char *url, int timeout_ms)
{
    char error[128];
    assert(timeout_ms > 0);
    struct script_pipe *pipe = calloc(1, sizeof *pipe);
    if (!pipe)
        return NULL;
    pipe->redis = redis_open(url, timeout_ms, error, sizeof error);
    if (!pipe->redis || redis_cluster(pipe->redis)) {
        redis_close(&pipe->redis);
        free(pipe);
        return NULL;
    }
    redis_never_wait(pipe->redis);
    pipe->timeout_ms = timeout_ms;
    pipe->due_ms = INT64_MAX;
    TAILQ_INIT(&pipe->waiting);
    TAILQ_INIT(&pipe->sent);
    return pipe;
}

static void free_all(struct sendings *calls)
{
    for (struct script_sending *call; (call = TAILQ_FIRST(calls)) != NULL;) {
        TAILQ_REMOVE(calls, call, in_pipe);
        free(call);
    }
}

void script_pipe_close(struct script_pipe **pipe)
{
    if (!*pipe)
        return;
    assert(!(*pipe)->connecting);
    free_all(&(*pipe)->waiting);
    free_all(&(*pipe)->sent);
    redis_close(&(*pipe)->redis);
    free(*pipe);
    *pipe = NULL;
}

/* ---- the end of a call ---- */

/* Calls `done`, unless it was called; the caller takes the call out of its list and frees it. */
static void tell(struct script_sending *call, const char *error)
{
    if (call->told)
        return;
    call->told = true;
    if (call->repeated && call->call.result == REDIS_FAILED)
        call->call.result = REDIS_UNKNOWN; /* the first sending may have been carried out */
    call->done(call->context, &call->call, error);
}

static void end(struct sendings *calls, struct script_sending *call, const char *error)
{
    TAILQ_REMOVE(calls, call, in_pipe);
    tell(call, error);
    assert(call != TAILQ_FIRST(calls) && call != TAILQ_LAST(calls, sendings));
    free(call);
}

/* ---- sending ---- */

static bool append(struct script_pipe *pipe, struct script_sending *call)
{
    static const char *const ping[] = {"PING"};
    bool with_text = redis_first_use(pipe->redis, call->call.id);
    if (call->publishes) /* see script_run_telling */
        call->owes_pong = redis_append(pipe->redis, 1, ping, NULL);
    return script_append(pipe->redis, &call->call, 1, with_text);
}

/* Sends what waits, as long as the server takes writes. */
static void send_waiting(struct script_pipe *pipe)
{
    struct script_sending *call, *next;
    int64_t now_ms = clock_now_ms();
    bool open = !pipe->connecting && redis_connected(pipe->redis);
    for (call = TAILQ_FIRST(&pipe->waiting); open && call; call = next) {
        next = TAILQ_NEXT(call, in_pipe);
        if (!append(pipe, call)) { /* replies would belong to other calls from here on */
            redis_drop(pipe->redis);
            return;
        }
        call->sent_ms = now_ms;
        TAILQ_REMOVE(&pipe->waiting, call, in_pipe);
        TAILQ_INSERT_TAIL(&pipe->sent, call, in_pipe);
    }
    if (open)
        redis_flush(pipe->redis);
}

void script_pipe_send(struct script_pipe *pipe, struct script_sending *call)
{
    assert(call->done && call->limit_ms > 0);
    script_forget(&call->call, REDIS_FAILED);
    call->owes_pong = call->repeated = call->told = false;
    call->until_ms = clock_now_ms() + call->limit_ms;
    int64_t due_ms = clock_now_ms() + pipe->timeout_ms;
    due_ms = call->until_ms < due_ms ? call->until_ms : due_ms;
    pipe->due_ms = due_ms < pipe->due_ms ? due_ms : pipe->due_ms;
    TAILQ_INSERT_TAIL(&pipe->waiting, call, in_pipe);
    send_waiting(pipe);
}

/* ---- replies ---- */

/* Takes the reply to the oldest call. A call whose script the server has forgotten goes again, with
 * the text: the server has not run it. */
static void take(struct script_pipe *pipe, const struct redisReply *reply)
{
    struct script_sending *call = TAILQ_FIRST(&pipe->sent);
    if (!call) {
        redis_drop(pipe->redis); /* a reply that nothing has asked for */
        return;
    }
    if (call->owes_pong) {
        call->owes_pong = false;
        return;
    }
    if (script_take(pipe->redis, &call->call, reply) && !call->told) {
        redis_forget_scripts(pipe->redis);
        TAILQ_REMOVE(&pipe->sent, call, in_pipe);
        TAILQ_INSERT_TAIL(&pipe->waiting, call, in_pipe);
        return;
    }
    end(&pipe->sent, call, redis_error(pipe->redis));
}

static void read_replies(struct script_pipe *pipe)
{
    struct redisReply *reply;
    redis_flush(pipe->redis);
    redis_fill(pipe->redis);
    while ((reply = redis_parsed(pipe->redis)) != NULL) {
        take(pipe, reply);
        freeReplyObject(reply);
    }
}

/* ---- lost connections and late calls ---- */

/* Puts calls whose replies are lost back to wait for the next connection, before all others, if
 * they have time left. The others end. */
static void lose_sent(struct script_pipe *pipe)
{
    int64_t now_ms = clock_now_ms();
    for (struct script_sending *call; (call = TAILQ_LAST(&pipe->sent, sendings)) != NULL;) {
        script_forget(&call->call, REDIS_UNKNOWN);
        if (call->told || call->repeated || now_ms >= call->until_ms) {
            end(&pipe->sent, call, redis_error(pipe->redis));
            continue;
        }
        TAILQ_REMOVE(&pipe->sent, call, in_pipe);
        call->repeated = true;
        call->owes_pong = false;
        TAILQ_INSERT_HEAD(&pipe->waiting, call, in_pipe);
    }
}

/* Tells the callers of late calls that wait for a connection. */
static void give_up_waiting(struct script_pipe *pipe, int64_t now_ms)
{
    struct script_sending *call, *next;
    for (call = TAILQ_FIRST(&pipe->waiting); call; call = next) {
        next = TAILQ_NEXT(call, in_pipe);
        if (now_ms >= call->until_ms)
            end(&pipe->waiting, call, "no connection in time");
        else if (call->until_ms < pipe->due_ms)
            pipe->due_ms = call->until_ms;
    }
}

/* The same of calls that were sent. Each stays in its place, for its reply. */
static void give_up_sent(struct script_pipe *pipe, int64_t now_ms)
{
    struct script_sending *call;
    TAILQ_FOREACH (call, &pipe->sent, in_pipe) {
        if (now_ms >= call->until_ms && !call->told) {
            script_forget(&call->call, REDIS_UNKNOWN);
            tell(call, no_reply);
        } else if (!call->told && call->until_ms < pipe->due_ms) {
            pipe->due_ms = call->until_ms;
        }
    }
}

/* A server that has not answered the oldest call in time is given up with its connection, because a
 * call behind it would wait as well. */
static void check_time(struct script_pipe *pipe)
{
    int64_t now_ms = clock_now_ms();
    if (now_ms < pipe->due_ms)
        return;
    pipe->due_ms = INT64_MAX;
    const struct script_sending *oldest = TAILQ_FIRST(&pipe->sent);
    if (oldest && now_ms - oldest->sent_ms >= pipe->timeout_ms) {
        redis_set_error(pipe->redis, no_reply);
        redis_drop(pipe->redis);
        lose_sent(pipe);
    } else if (oldest) {
        pipe->due_ms = oldest->sent_ms + pipe->timeout_ms;
    }
    give_up_sent(pipe, now_ms);
    give_up_waiting(pipe, now_ms);
}

static void fail_waiting(struct script_pipe *pipe)
{
    for (struct script_sending *call; (call = TAILQ_FIRST(&pipe->waiting)) != NULL;) {
        script_forget(&call->call, REDIS_FAILED);
        end(&pipe->waiting, call, redis_error(pipe->redis));
    }
}

bool script_pipe_turn(struct script_pipe *pipe)
{
    if (pipe->connecting) {
        assert(TAILQ_EMPTY(&pipe->sent));
        check_time(pipe);
        return false;
    }
    if (redis_fd(pipe->redis) >= 0)
        read_replies(pipe);
    if (redis_fd(pipe->redis) < 0)
        lose_sent(pipe);
    check_time(pipe);
    if (pipe->failed)
        fail_waiting(pipe);
    pipe->failed = false;
    send_waiting(pipe);
    /* A server that takes no writes any more is left when it has answered all. */
    pipe->connecting =
        !TAILQ_EMPTY(&pipe->waiting) && TAILQ_EMPTY(&pipe->sent) && !redis_connected(pipe->redis);
    return pipe->connecting;
}

void script_pipe_connect(struct script_pipe *pipe)
{
    assert(pipe->connecting);
    redis_connect(pipe->redis);
}

void script_pipe_connected(struct script_pipe *pipe)
{
    assert(pipe->connecting);
    pipe->connecting = false;
    pipe->failed = !redis_connected(pipe->redis);
}

const char *script_pipe_place(const struct script_pipe *pipe)
{
    return redis_place(pipe->redis);
}

const struct redis *script_pipe_redis(const struct script_pipe *pipe)
{
    return pipe->connecting ? NULL : pipe->redis;
}

int64_t script_pipe_due_ms(const struct script_pipe *pipe)
{
    bool stuck = !pipe->connecting && !TAILQ_EMPTY(&pipe->waiting) && TAILQ_EMPTY(&pipe->sent);
    return stuck ? 0 : pipe->due_ms;
}
