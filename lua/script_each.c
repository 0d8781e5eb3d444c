/* Sends one script call to each of several servers, all at the same time.
 *
 * why_owed: a slow server must not cost its connection, as a time-out in redis.c does, or every
 * slow answer would be followed by a connect. A call whose answer does not come in time is left
 * REDIS_UNKNOWN, and the line counts the reply as owed. The server answers in order, so the first
 * `owed` replies on a line belong to given-up calls, and the next to the present call. */
#include "lua/script_each.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/worker.h"

/* ---- connecting: a server that does not answer must not keep the others waiting ---- */

/* One thread per connect, because redis_connect blocks. The thread has the client to itself until
 * it is joined. */
static void *connect_thread(void *redis)
{
    redis_connect(redis);
    return NULL;
}

static void connect_all(struct script_line *lines, size_t count)
{
    pthread_t threads[SCRIPT_EACH_MAX];
    bool started[SCRIPT_EACH_MAX] = {false};
    for (size_t i = 0; i < count; i++) {
        if (redis_connected(lines[i].redis))
            continue;
        lines[i].owed = 0; /* the replies are lost with their connection */
        if (lines[i].skip)
            continue;
        started[i] = worker_thread(&threads[i], connect_thread, lines[i].redis);
        if (!started[i]) /* without a thread it is slower, but the server is asked */
            redis_connect(lines[i].redis);
    }
    for (size_t i = 0; i < count; i++)
        if (started[i])
            pthread_join(threads[i], NULL);
}

/* ---- asking ---- */

/* The value_count of a call that was sent and has no result yet; no answer has a negative count. */
enum { WAITING = -1 };

static void send_all(struct script_line *lines, struct script_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool sent = !lines[i].skip && redis_connected(lines[i].redis) &&
                    script_append(lines[i].redis, &calls[i], 1,
                                  redis_first_use(lines[i].redis, calls[i].id));
        script_forget(&calls[i], sent ? REDIS_UNKNOWN : REDIS_FAILED);
        if (!sent)
            continue;
        /* If the flush loses the connection, the call has no socket to poll and becomes
         * REDIS_UNKNOWN when the wait ends, which errs on the safe side. */
        redis_flush(lines[i].redis);
        calls[i].value_count = WAITING;
    }
}

/* Drops the reply to a given-up call. If it is NOSCRIPT, the server has forgotten its scripts, and
 * the next call carries the text at once. */
static void drop_owed(struct script_line *line, const redisReply *reply)
{
    assert(line->owed > 0);
    line->owed--;
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0)
        redis_forget_scripts(line->redis);
    else if (reply->type == REDIS_REPLY_ERROR)
        redis_set_error(line->redis, reply->str);
}

/* Takes the replies that one line has read, until its call is answered. */
static void take_replies(struct script_line *line, struct script_call *call)
{
    redisReply *reply;
    while (call->value_count == WAITING && (reply = redis_parsed(line->redis)) != NULL) {
        if (line->owed > 0) {
            drop_owed(line, reply);
        } else if (script_take(line->redis, call, reply)) {
            /* The server does not know the script, so it has not run the call: again, with the
             * text. A command that could not be sent to its end cannot run: still REDIS_FAILED. */
            if (script_append(line->redis, call, 1, true) && redis_flush(line->redis))
                call->value_count = WAITING;
        }
        freeReplyObject(reply);
    }
    if (call->value_count == WAITING && !redis_connected(line->redis))
        script_forget(call, REDIS_UNKNOWN);
}

/* True while a call waits and fewer than `enough` calls have returned yes. */
static bool wanted(const struct script_call *calls, size_t count, size_t enough)
{
    size_t waiting = 0, yes = 0;
    for (size_t i = 0; i < count; i++) {
        waiting += calls[i].value_count == WAITING;
        yes += calls[i].value_count > 0 && calls[i].values[0] == 1;
    }
    return waiting > 0 && (enough == 0 || yes < enough);
}

/* Waits until any line has bytes and takes its replies; false when the time is over. A poll that a
 * signal interrupts leaves revents 0 and counts as one more round. */
static bool listen_once(struct script_line *lines, struct script_call *calls, size_t count,
                        int64_t until_ms)
{
    struct pollfd fds[SCRIPT_EACH_MAX];
    for (size_t i = 0; i < count; i++)
        fds[i] = (struct pollfd){
            .fd = calls[i].value_count == WAITING ? redis_fd(lines[i].redis) : -1,
            .events = POLLIN,
        };
    int64_t left_ms = until_ms - clock_now_ms();
    if (left_ms < 0 || poll(fds, count, (int)left_ms) == 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (fds[i].fd >= 0 && fds[i].revents != 0) {
            redis_fill(lines[i].redis);
            take_replies(&lines[i], &calls[i]);
        }
    return true;
}

void script_run_each(struct script_line *lines, struct script_call *calls, size_t count,
                     size_t enough, int wait_ms)
{
    assert(count <= SCRIPT_EACH_MAX);
    connect_all(lines, count);
    /* The time runs from here: connecting has a time-out of its own. */
    int64_t until_ms = clock_now_ms() + wait_ms;
    send_all(lines, calls, count);
    bool in_time = true;
    while (in_time && wanted(calls, count, enough))
        in_time = listen_once(lines, calls, count, until_ms);
    /* Enough calls returned yes, or the time is over. The rest may still be done, see why_owed. */
    for (size_t i = 0; i < count; i++)
        if (calls[i].value_count == WAITING) {
            script_forget(&calls[i], REDIS_UNKNOWN);
            lines[i].owed++;
        }
}
