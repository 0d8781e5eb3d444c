/* The simulated Redis server: requests that travel, are carried out one after the other, and are
 * answered; and all that may go wrong with them. */
#include "test/simulate/servers/redis_server.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "stock/sale_cache.h"
#include "test/simulate/machine/chance.h"
#include "test/simulate/machine/loop.h"
#include "test/simulate/promise.h"
#include "test/simulate/servers/redis_lua.h"
#include "test/simulate/servers/redis_store.h"
#include "test/simulate/story.h"

enum {
    TRIP_US_MAX = 300, /* of a message, one way */
    LATE_MS_MIN = 100,
    STEP_MS_MAX = 2000, /* of the clock: a lease may last so much longer, twice */
    SUBSCRIPTIONS_MAX = 256,
    LATE_NEWS_MS_MAX = 500,
    CUT_MS_MAX = 4000, /* before the client of a cut connection notices */
};

static struct {
    uint32_t epoch;
    uint64_t known; /* scripts, one bit each */
    int64_t clock_step_us;
    struct redis_subscription *subscriptions[SUBSCRIPTIONS_MAX];
    size_t subscription_count;
} server;

static int64_t trip_ns(void)
{
    return (int64_t)(20 + chance_delay(TRIP_US_MAX)) * 1000;
}

void redis_server_begin(void)
{
    memset(&server, 0, sizeof server);
    store_begin();
    redis_lua_on_publish(redis_server_publish);
}

uint32_t redis_server_epoch(void)
{
    return server.epoch;
}

int64_t redis_server_us(void)
{
    return (LOOP_WALL_NS + loop_now_ns() - LOOP_START_NS) / 1000 + server.clock_step_us;
}

/* ---- what only a lock's holder may do ---- */

enum { JOINED_MAX = COMMAND_WORDS_MAX / 5 }; /* calls of two keys and three arguments */

/* Before a script, of each of the calls that are joined in it. */
static struct {
    char token[STORE_TEXT_MAX]; /* of the lock; "": it is free */
    struct store_value segment;
} before[JOINED_MAX];

static bool ends_in(const char *key, const char *field)
{
    size_t length = strlen(key), end = strlen(field);
    return length >= end && strcmp(key + length - end, field) == 0;
}

static const char *token_of(const char *key)
{
    const struct store_value *value = store_get(key, redis_server_us() / 1000);
    return value->kind == STORE_STRING ? value->fields[0].text : "";
}

static bool has_segment(const char *const *keys, size_t count)
{
    return count > 1 && ends_in(keys[1], ":segment");
}

/* The keys of one call: up to the next lock. */
static size_t keys_of_call(const char *const *keys, size_t count)
{
    size_t n = 1;
    while (n < count && !ends_in(keys[n], ":lock"))
        n++;
    return n;
}

/* How many calls are joined. */
static size_t guard_begin(const char *const *keys, size_t count)
{
    size_t calls = 0;
    for (size_t i = 0, some; i < count; i += some, calls++) {
        some = keys_of_call(keys + i, count - i);
        assert(calls < JOINED_MAX);
        strcpy(before[calls].token, token_of(keys[i]));
        if (has_segment(keys + i, some))
            before[calls].segment = *store_get(keys[i + 1], redis_server_us() / 1000);
    }
    return calls;
}

/* Only the holder of a segment's lock changes the segment, or takes the lock away. */
static void guard_end(size_t call, const char *const *keys, size_t count, const char *token)
{
    const char *holder = before[call].token;
    if (strcmp(holder, token) == 0)
        return;
    if (holder[0] == '\0' && strcmp(token_of(keys[0]), token) == 0)
        return; /* it has acquired the lock */
    if (holder[0] != '\0' && strcmp(token_of(keys[0]), holder) != 0)
        promise_break("%s was taken from %s by %s", keys[0], holder, token);
    if (has_segment(keys, count) &&
        !store_is_same(&before[call].segment, store_get(keys[1], redis_server_us() / 1000)))
        promise_break("%s was changed by %s, which does not hold its lock", keys[1], token);
}

/* ---- subscriptions ---- */

struct redis_subscription *redis_server_subscription(struct redis_message *message, uint32_t epoch)
{
    struct redis_subscription *subscription = calloc(1, sizeof *subscription);
    subscription->process = task_current()->process;
    subscription->incarnation = subscription->process->incarnation;
    subscription->epoch = epoch;
    subscription->end = &subscription->first;
    message->subscription = subscription;
    return subscription;
}

/* The client has forgotten all sales when it continues. */
void redis_server_subscribed(struct redis_subscription *subscription)
{
    promise_heard(subscription->process, NULL);
}

void redis_server_unsubscribe(struct redis_subscription *subscription)
{
    subscription->left = true;
    subscription->there = false;
}

static void subscribe(struct redis_subscription *subscription)
{
    size_t i = 0;
    while (i < server.subscription_count && server.subscriptions[i]->there)
        i++;
    assert(i < SUBSCRIPTIONS_MAX);
    server.subscriptions[i] = subscription;
    server.subscription_count += i == server.subscription_count;
    subscription->there = !subscription->left;
}

static void see_end(void *argument, uint32_t tag)
{
    struct redis_subscription *subscription = argument;
    (void)tag;
    subscription->closed = true;
    task_signal(subscription->signal, true);
}

static void end_subscription(struct redis_subscription *subscription, int64_t delay_ns)
{
    subscription->there = false;
    loop_at(loop_now_ns() + delay_ns, see_end, subscription, 0);
}

struct delivery {
    struct redis_subscription *to;
    struct redis_news *news;
};

static void hear(void *argument, uint32_t tag)
{
    struct delivery *delivery = argument;
    struct redis_subscription *to = delivery->to;
    (void)tag;
    if (to->left || !to->process->alive || to->process->incarnation != to->incarnation)
        return;
    if (!to->first)
        to->end = &to->first;
    *to->end = delivery->news;
    to->end = &delivery->news->next;
    promise_heard(to->process, delivery->news->message);
    task_signal(to->signal, true);
}

static void send_news(struct redis_subscription *to, const char *text)
{
    if (chance_strikes(FAULT_SUBSCRIPTION_CUT)) {
        end_subscription(to, (int64_t)chance_effect(CUT_MS_MAX) * LOOP_MS);
        return;
    }
    struct delivery *delivery = calloc(1, sizeof *delivery);
    delivery->to = to;
    delivery->news = calloc(1, sizeof *delivery->news);
    strcpy(delivery->news->message, text);
    int64_t at_ns = loop_now_ns() + trip_ns();
    if (chance_strikes(FAULT_MESSAGE_LATE))
        at_ns += (int64_t)chance_effect(LATE_NEWS_MS_MAX) * LOOP_MS;
    to->arrives_ns = at_ns > to->arrives_ns ? at_ns : to->arrives_ns;
    loop_at(to->arrives_ns, hear, delivery, 0);
}

/* ---- commands ---- */

static redisReply *run_script(const struct redis_words *words)
{
    bool with_text = strcmp(words->text[0], "EVAL") == 0;
    int script = redis_lua_find(words->text[1]);
    assert(script >= 0);
    uint64_t bit = UINT64_C(1) << script;
    if (!with_text && !(server.known & bit))
        return redis_reply_text(REDIS_REPLY_ERROR, "NOSCRIPT No matching script");
    server.known |= bit;
    if (chance_strikes(FAULT_REDIS_REFUSES))
        return redis_reply_text(REDIS_REPLY_ERROR, "OOM command not allowed");
    size_t keys = (size_t)atoi(words->text[2]);
    const char *const *texts = &words->text[3];
    store_script();
    size_t args = (size_t)words->count - 3 - keys;
    bool guarded = keys > 0 && ends_in(texts[0], ":lock");
    size_t calls = guarded ? guard_begin(texts, keys) : 0;
    redisReply *reply = redis_lua_run(script, texts, keys, texts + keys, args, redis_server_us());
    for (size_t i = 0; i < calls; i++)
        guard_end(i, texts + i * keys / calls, keys / calls, texts[keys + i * args / calls]);
    return reply;
}

static redisReply *run_command(const struct redis_message *message, const struct redis_words *words)
{
    const char *name = words->text[0];
    if (strncmp(name, "EVAL", 4) == 0)
        return run_script(words);
    if (strcmp(name, "PUBLISH") == 0)
        redis_server_publish(words->text[1], words->text[2]);
    else if (strcmp(name, "SUBSCRIBE") == 0)
        subscribe(message->subscription);
    else
        assert(strcmp(name, "PING") == 0);
    return redis_reply_text(REDIS_REPLY_STATUS, "OK");
}

static void tell(const struct redis_message *message, const struct redis_words *words,
                 const redisReply *reply)
{
    if (!story_told)
        return;
    if (strncmp(words->text[0], "EVAL", 4) != 0) {
        story("    redis: %s %s", words->text[0],
              words->count > 1 ? words->text[words->count - 1] : "");
        return;
    }
    char args[256] = "", answer[128] = "";
    for (int i = 3; i < words->count; i++)
        snprintf(args + strlen(args), sizeof args - strlen(args), " %s", words->text[i]);
    for (size_t i = 0; i < reply->elements; i++)
        if (reply->element[i]->str)
            snprintf(answer + strlen(answer), sizeof answer - strlen(answer), " %s;",
                     reply->element[i]->str);
        else
            snprintf(answer + strlen(answer), sizeof answer - strlen(answer), " %lld",
                     (long long)reply->element[i]->integer);
    bool number = reply->type == REDIS_REPLY_INTEGER;
    if (number)
        snprintf(answer, sizeof answer, " %lld", (long long)reply->integer);
    story("    redis, for %s: %s%s =%s", message->sender,
          redis_lua_name(redis_lua_find(words->text[1])), args,
          reply->elements > 0 || number ? answer
          : reply->str                  ? reply->str
                                        : " nothing");
}

/* ---- losses ---- */

/* A new run: connections end, and what it knows of scripts. */
static void restart(void)
{
    server.epoch++;
    server.known = 0;
    for (size_t i = 0; i < server.subscription_count; i++)
        if (server.subscriptions[i]->there)
            end_subscription(server.subscriptions[i], trip_ns());
}

/* Lets faults strike the server when a message arrives. */
static void befall(void)
{
    if (chance_strikes(FAULT_REDIS_EMPTY)) {
        store_lose_all();
        if (chance_effect(2) == 0)
            restart();
    }
    if (chance_strikes(FAULT_REDIS_REWIND)) {
        store_rewind(1 + chance_effect(1 + chance_effect(20)));
        restart();
    }
    if (chance_strikes(FAULT_REDIS_RESTART))
        restart();
    if (chance_strikes(FAULT_REDIS_EVICT))
        store_evict(chance_effect(1000));
    if (chance_strikes(FAULT_REDIS_FORGETS_SCRIPTS))
        server.known = 0;
    if (chance_strikes(FAULT_REDIS_CLOCK))
        server.clock_step_us = ((int64_t)chance_effect(2 * STEP_MS_MAX) - STEP_MS_MAX) * 1000;
}

/* ---- messages ---- */

static void arrive_back(void *argument, uint32_t tag)
{
    struct redis_message *message = argument;
    (void)tag;
    if (message->waiter)
        task_wake(message->waiter, message->waiter_tag);
}

static void close_message(struct redis_message *message)
{
    message->closed = true;
    loop_at(loop_now_ns() + trip_ns(), arrive_back, message, 0);
}

static void arrive(void *argument, uint32_t tag)
{
    struct redis_message *message = argument;
    (void)tag;
    befall();
    if (message->epoch != server.epoch) {
        close_message(message);
        return;
    }
    size_t until = message->keep;
    if (until - message->done > 1 && chance_strikes(FAULT_REDIS_SPLIT))
        until = message->done + 1 + chance_effect((uint32_t)(until - message->done - 1));
    for (; message->done < until; message->done++) {
        const struct redis_words *words = message->commands[message->done];
        message->replies[message->done] = run_command(message, words);
        tell(message, words, message->replies[message->done]);
        promise_redis();
    }
    if (message->done < message->keep)
        loop_at(loop_now_ns() + trip_ns(), arrive, message, 0);
    else if (message->keep < message->count || message->answer_lost)
        close_message(message);
    else
        loop_at(loop_now_ns() + trip_ns(), arrive_back, message, 0);
}

void redis_server_send(struct redis_message *message)
{
    int64_t at_ns = loop_now_ns() + trip_ns();
    message->keep = message->count;
    if (chance_strikes(FAULT_REDIS_REQUEST_LOST))
        message->keep = 0;
    else if (message->count > 1 && chance_strikes(FAULT_REDIS_CUT))
        message->keep = 1 + chance_effect((uint32_t)message->count - 1);
    else if (chance_strikes(FAULT_REDIS_ANSWER_LOST))
        message->answer_lost = true;
    else if (chance_strikes(FAULT_REDIS_LATE))
        at_ns +=
            (LATE_MS_MIN + (int64_t)chance_effect(REDIS_SERVER_LATE_MS - LATE_MS_MIN)) * LOOP_MS;
    loop_at(at_ns, arrive, message, 0);
}

/* ---- channels ---- */

struct news {
    struct process *process;
    char message[SALE_MESSAGE_SIZE];
};

/* To a process that sleeps the message comes when it wakes up. */
static void deliver(void *argument, uint32_t incarnation)
{
    struct news *news = argument;
    struct process *process = news->process;
    if (!process->alive || process->incarnation != incarnation)
        return;
    if (process->asleep_until_ns > loop_now_ns()) {
        loop_at(process->asleep_until_ns, deliver, news, incarnation);
        return;
    }
    sale_cache_on_message(process->cache, news->message);
}

void redis_server_publish(const char *channel, const char *text)
{
    (void)channel;
    struct process *process = NULL;
    for (size_t i = 0; i < server.subscription_count; i++)
        if (server.subscriptions[i]->there)
            send_news(server.subscriptions[i], text);
    for (size_t i = 0; (process = process_at(i)); i++) {
        if (!process->alive || process->listens)
            continue;
        struct news *news = calloc(1, sizeof *news);
        news->process = process;
        snprintf(news->message, sizeof news->message, "%s", text);
        int64_t delay_ns = trip_ns();
        if (chance_strikes(FAULT_MESSAGE_LATE))
            delay_ns += (int64_t)chance_effect(LATE_NEWS_MS_MAX) * LOOP_MS;
        loop_at(loop_now_ns() + delay_ns, deliver, news, process->incarnation);
    }
}
