/* The majority lock: one holder among all who ask the same several independent Redis servers. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/driver.h"
#include "lock/redis_key.h"
#include "lock/text.h"
#include "lua/command.h"
#include "lua/script_each.h"

/* what_it_cannot_promise: whoever holds the majority of the configured servers excludes all others
 * while those servers keep what they were told and clocks run at about one speed. A server that
 * restarts without its data, or a clock that jumps, may give one lock to two holders; a holder that
 * sleeps past its lease is not stopped by anybody, because numbers of different servers cannot be
 * compared and so there is no fence. It is for doing work once most of the time. */

enum {
    SERVERS_MIN = 3,
    LINES_IDLE_MAX = 8,
    OWED_MAX = 16, /* on one connection, before it is given up */
    URL_SIZE = 512,
};

/* One connection to every server, lent to one thread at a time. */
struct lines {
    struct script_line line[SCRIPT_EACH_MAX];
    struct lines *next;
};

struct red {
    size_t count, quorum;
    char (*url)[URL_SIZE];
    char prefix[SECLOCK_PREFIX_MAX];
    int timeout_ms;
    pthread_mutex_t mutex; /* guards all below */
    struct lines *idle;
    size_t idle_count;
};

/* What the servers said. */
struct votes {
    size_t yes, no, silent;
    int64_t left_ms; /* of the lease that ends first among those who said no; -1: unknown */
};

/* ---- Connections ---- */

static void lines_free(struct red *red, struct lines *lines)
{
    for (size_t i = 0; i < red->count; i++)
        redis_close(&lines->line[i].redis);
    free(lines);
}

static struct lines *lines_new(struct red *red)
{
    char error[160];
    struct lines *lines = calloc(1, sizeof *lines);
    for (size_t i = 0; lines && i < red->count; i++) {
        lines->line[i].redis = redis_open(red->url[i], red->timeout_ms, error, sizeof error);
        if (!lines->line[i].redis) {
            lock_set_error("server %zu: %s", i + 1, error);
            lines_free(red, lines);
            return NULL;
        }
    }
    return lines;
}

static struct lines *lines_take(struct red *red)
{
    pthread_mutex_lock(&red->mutex);
    struct lines *lines = red->idle;
    if (lines) {
        red->idle = lines->next;
        red->idle_count--;
    }
    pthread_mutex_unlock(&red->mutex);
    return lines ? lines : lines_new(red);
}

/* A line on which too much is owed is made anew when next used. */
static void lines_give(struct red *red, struct lines *lines)
{
    bool kept = true;
    for (size_t i = 0; i < red->count; i++)
        kept = kept && lines->line[i].owed < OWED_MAX;
    pthread_mutex_lock(&red->mutex);
    kept = kept && red->idle_count < LINES_IDLE_MAX;
    if (kept) {
        lines->next = red->idle;
        red->idle = lines;
        red->idle_count++;
    }
    pthread_mutex_unlock(&red->mutex);
    if (!kept)
        lines_free(red, lines);
}

static enum seclock_result red_open(const struct lock_context *context, void **self_out)
{
    if (context->server_count < SERVERS_MIN || context->server_count > SCRIPT_EACH_MAX) {
        lock_set_error("a majority lock needs %d to %d redis servers that are independent of each "
                       "other (an odd number), not %zu",
                       SERVERS_MIN, SCRIPT_EACH_MAX, context->server_count);
        return SECLOCK_CONFIG;
    }
    struct red *red = calloc(1, sizeof *red);
    if (red)
        red->url = calloc(context->server_count, sizeof *red->url);
    if (!red || !red->url) {
        free(red);
        lock_set_error("out of memory");
        return SECLOCK_FAILED;
    }
    for (const char *const *url = context->servers; *url; url++)
        if (strncmp(*url, "redis://", 8) == 0 && red->count < context->server_count)
            snprintf(red->url[red->count++], URL_SIZE, "%s", *url);
    red->quorum = red->count / 2 + 1;
    strcpy(red->prefix, context->prefix);
    /* The servers are asked within a small part of the lease, so that most of it is left. */
    int share_ms = context->lease_ms / 20 > 5 ? context->lease_ms / 20 : 5;
    red->timeout_ms = context->timeout_ms < share_ms ? context->timeout_ms : share_ms;
    pthread_mutex_init(&red->mutex, NULL);
    red->idle = lines_new(red);
    red->idle_count = red->idle != NULL;
    if (!red->idle) {
        free(red->url);
        free(red);
        return SECLOCK_CONFIG;
    }
    *self_out = red;
    return SECLOCK_OK;
}

static void red_close(void *self)
{
    struct red *red = self;
    while (red->idle) {
        struct lines *lines = red->idle;
        red->idle = lines->next;
        lines_free(red, lines);
    }
    pthread_mutex_destroy(&red->mutex);
    free(red->url);
    free(red);
}

/* Closing a Redis connection says nothing to the server, so the child's copies can be. */
static void red_forget(void *self)
{
    struct red *red = self;
    for (struct lines *lines = red->idle; lines; lines = lines->next)
        for (size_t i = 0; i < red->count; i++)
            redis_close(&lines->line[i].redis);
}

/* ---- Asking all ---- */

/* The same call for all; the second key, where there is one, is beside the lock's. */
static void call_begin(const struct red *red, struct script_call *call, enum script_id id,
                       const struct seclock_handle *handle, const char *second)
{
    char key[SCRIPT_KEY_MAX];
    script_begin(call, id);
    lock_redis_key(red->prefix, handle->name, "red", key);
    script_key(call, key);
    if (second) {
        lock_redis_key(red->prefix, handle->name, second, key);
        script_key(call, key);
    }
    script_text(call, handle->request);
}

static struct votes ask_all(const struct red *red, struct lines *lines,
                            const struct script_call *call, struct script_call *calls,
                            size_t enough, int wait_ms)
{
    struct votes votes = {.left_ms = -1};
    for (size_t i = 0; i < red->count; i++)
        calls[i] = *call;
    script_run_each(lines->line, calls, red->count, enough, wait_ms);
    for (size_t i = 0; i < red->count; i++) {
        bool answered = calls[i].result == REDIS_ANSWERED;
        bool yes = answered && calls[i].values[0] == 1;
        votes.yes += yes;
        votes.no += answered && !yes;
        votes.silent += !answered;
        if (answered && !yes && (votes.left_ms < 0 || calls[i].values[1] < votes.left_ms))
            votes.left_ms = calls[i].values[1];
    }
    return votes;
}

/* SECLOCK_OK by a majority, `no` when no majority is possible any more, else not known. */
static enum seclock_result verdict(const struct red *red, const struct votes *votes,
                                   enum seclock_result no)
{
    if (votes->yes >= red->quorum)
        return SECLOCK_OK;
    if (red->count - votes->no < red->quorum)
        return no;
    lock_set_error("%zu of %zu servers did not answer in %d ms", votes->silent, red->count,
                   red->timeout_ms);
    return SECLOCK_UNKNOWN;
}

/* Also after a try without a majority, on the same lines: a server that is late with the
 * acquisition does this after it. Only a real release is remembered, for its repeat. */
static struct votes release_all(const struct red *red, struct lines *lines,
                                const struct seclock_handle *handle, bool remembered, int wait_ms)
{
    struct script_call call, calls[SCRIPT_EACH_MAX];
    call_begin(red, &call, SCRIPT_lock_release, handle, remembered ? "red-released" : NULL);
    script_text(&call, "");
    return ask_all(red, lines, &call, calls, remembered ? red->quorum : 0, wait_ms);
}

/* ---- The driver ---- */

/* After a try without a majority nothing stays: nobody holds the lock who does not know of it, so
 * the outcome is never in doubt. */
static enum seclock_result red_acquire(void *self, struct seclock_handle *handle)
{
    struct red *red = self;
    struct script_call call, calls[SCRIPT_EACH_MAX];
    struct lines *lines = lines_take(red);
    if (!lines)
        return SECLOCK_FAILED;
    int64_t sent_ns = handle->now_ns();
    call_begin(red, &call, SCRIPT_lock_red, handle, NULL);
    script_int(&call, handle->lease_ms);
    struct votes votes = ask_all(red, lines, &call, calls, red->quorum, red->timeout_ms);
    int64_t took_ms = (handle->now_ns() - sent_ns) / 1000000;
    bool valid = took_ms < handle->lease_ms - handle->lease_ms / 100 - 2;
    enum seclock_result result = verdict(red, &votes, SECLOCK_BUSY);
    if (result == SECLOCK_OK && !valid)
        result = SECLOCK_BUSY;
    else if (result == SECLOCK_UNKNOWN) /* with too few to answer, nobody's release would help */
        result = red->count - votes.silent < red->quorum ? SECLOCK_FAILED : SECLOCK_BUSY;
    if (result != SECLOCK_OK)
        release_all(red, lines, handle, false, votes.silent > 0 ? 0 : red->timeout_ms);
    handle->busy_ms = votes.left_ms;
    handle->token = handle->request;
    handle->hold_count = 1;
    lines_give(red, lines);
    return result;
}

/* Servers that have lost it, or never had it, are given it again, as long as a majority has it all
 * the time: otherwise one failure after another would use the majority up. Who was not heard before
 * the majority agreed is among them, as it may have come back empty; but not who owes more. */
static void mend(const struct red *red, struct lines *lines, const struct seclock_handle *handle,
                 const struct script_call *renewed)
{
    struct script_call call, calls[SCRIPT_EACH_MAX];
    call_begin(red, &call, SCRIPT_lock_red, handle, NULL);
    script_int(&call, handle->lease_ms);
    for (size_t i = 0; i < red->count; i++)
        lines->line[i].skip = renewed[i].values[0] == 1 || lines->line[i].owed > 1 ||
                              !redis_connected(lines->line[i].redis);
    ask_all(red, lines, &call, calls, 0, 0);
    for (size_t i = 0; i < red->count; i++)
        lines->line[i].skip = false;
}

static enum seclock_result renew_one(const struct red *red, struct lines *lines,
                                     const struct seclock_handle *handle)
{
    struct script_call call, calls[SCRIPT_EACH_MAX];
    call_begin(red, &call, SCRIPT_lock_renew, handle, "red-fence");
    script_int(&call, handle->lease_ms);
    struct votes votes = ask_all(red, lines, &call, calls, red->quorum, red->timeout_ms);
    enum seclock_result result = verdict(red, &votes, SECLOCK_LOST);
    if (result == SECLOCK_OK && votes.yes < red->count)
        mend(red, lines, handle, calls);
    return result;
}

static void red_renew(void *self, struct seclock_handle *const *handles, size_t count,
                      enum seclock_result *results_out)
{
    struct red *red = self;
    struct lines *lines = lines_take(red);
    bool silent = false; /* once a majority did not answer, the others wait for the next time */
    for (size_t i = 0; i < count; i++) {
        results_out[i] = lines && !silent ? renew_one(red, lines, handles[i]) : SECLOCK_FAILED;
        silent = silent || results_out[i] == SECLOCK_UNKNOWN;
    }
    if (lines)
        lines_give(red, lines);
}

static enum seclock_result red_release(void *self, struct seclock_handle *handle)
{
    struct red *red = self;
    struct lines *lines = lines_take(red);
    if (!lines)
        return SECLOCK_FAILED;
    struct votes votes = release_all(red, lines, handle, true, red->timeout_ms);
    lines_give(red, lines);
    return verdict(red, &votes, SECLOCK_LOST);
}

/* ---- For operators ---- */

struct opinion {
    char holder[SECLOCK_TOKEN_MAX];
    int64_t left_ms;
};

/* What each server says of the lock; `answered_out` counts those who said anything. */
static void ask_opinions(const struct red *red, struct lines *lines, const char *name,
                         struct opinion *opinions_out, size_t *answered_out)
{
    char key[SCRIPT_KEY_MAX];
    lock_redis_key(red->prefix, name, "red", key);
    *answered_out = 0;
    for (size_t i = 0; i < red->count; i++) {
        struct command commands[2] = {
            {.argc = 2, .argv = {"GET", key}},
            {.argc = 2, .argv = {"PTTL", key}},
        };
        opinions_out[i] = (struct opinion){0};
        command_run(lines->line[i].redis, commands, 2);
        size_t length = 0;
        const char *holder = command_text(&commands[0], -1, &length);
        *answered_out += commands[0].result == REDIS_ANSWERED;
        if (commands[0].result == REDIS_ANSWERED && holder) {
            snprintf(opinions_out[i].holder, SECLOCK_TOKEN_MAX, "%s", holder);
            opinions_out[i].left_ms = command_int(&commands[1], -1);
        }
        command_clear(commands, 2);
    }
}

/* Held is what a majority agrees on; its time ends when the majority does. */
static void sum_up(const struct red *red, const struct opinion *opinions,
                   struct seclock_status *status_out)
{
    for (size_t i = 0; i < red->count; i++) {
        size_t same = 0, longer = 0;
        for (size_t j = 0; j < red->count; j++) {
            bool agrees = opinions[i].holder[0] != '\0' &&
                          strcmp(opinions[i].holder, opinions[j].holder) == 0;
            same += agrees;
            longer += agrees && opinions[j].left_ms >= opinions[i].left_ms;
        }
        if (same < red->quorum)
            continue;
        status_out->held = true;
        status_out->count = 1;
        memcpy(status_out->holder, opinions[i].holder, SECLOCK_TOKEN_MAX);
        if (longer >= red->quorum && opinions[i].left_ms > status_out->remaining_ms)
            status_out->remaining_ms = opinions[i].left_ms;
    }
}

static enum seclock_result red_status(const struct lock_driver *driver, void *self,
                                      const char *name, struct seclock_status *status_out)
{
    (void)driver;
    struct red *red = self;
    struct opinion opinions[SCRIPT_EACH_MAX];
    size_t answered;
    status_out->remaining_ms = 0;
    struct lines *lines = lines_new(red); /* plain commands must not meet replies that are owed */
    if (!lines)
        return SECLOCK_FAILED;
    ask_opinions(red, lines, name, opinions, &answered);
    sum_up(red, opinions, status_out);
    lines_free(red, lines);
    if (answered >= red->quorum)
        return SECLOCK_OK;
    lock_set_error("%zu of %zu servers answered", answered, red->count);
    return SECLOCK_FAILED;
}

static enum seclock_result red_break(const struct lock_driver *driver, void *self, const char *name)
{
    (void)driver;
    struct red *red = self;
    char key[SCRIPT_KEY_MAX];
    size_t answered = 0, deleted = 0;
    struct lines *lines = lines_new(red);
    if (!lines)
        return SECLOCK_FAILED;
    lock_redis_key(red->prefix, name, "red", key);
    for (size_t i = 0; i < red->count; i++) {
        struct command command = {.argc = 2, .argv = {"DEL", key}};
        command_run(lines->line[i].redis, &command, 1);
        answered += command.result == REDIS_ANSWERED;
        deleted += command.result == REDIS_ANSWERED && command_int(&command, -1) > 0;
        command_clear(&command, 1);
    }
    lines_free(red, lines);
    if (answered >= red->quorum)
        return deleted > 0 ? SECLOCK_OK : SECLOCK_NOT_OWNER;
    lock_set_error("%zu of %zu servers answered", answered, red->count);
    return SECLOCK_FAILED;
}

static enum seclock_result red_check(void *self, char *warning_out, size_t size)
{
    const struct red *red = self;
    snprintf(
        warning_out, size,
        "%sthe red lock has no fence: it does not stop a holder that sleeps past its lease, nor "
        "two holders after a server lost its data",
        red->count % 2 == 0 ? "an even number of servers bears no more failures than one server "
                              "less, and may be split in halves; "
                            : "");
    return SECLOCK_OK;
}

const struct lock_driver redlock_driver = {
    .kind = SECLOCK_KIND_RED,
    .features = LOCK_RENEWS,
    .poll_ms_min = 5,
    .poll_ms_max = 100,
    .open = red_open,
    .close = red_close,
    .forget = red_forget,
    .acquire = red_acquire,
    .renew = red_renew,
    .release = red_release,
    .status = red_status,
    .break_lock = red_break,
    .check = red_check,
};
