/* What operators did last, in the whole group of daemons. */
#include "service/live/admin_actions.h"

#include <assert.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lua/command.h"
#include "service/live/live_group.h"
#include "sql/ledger/ledger.h"

enum { DAEMON_SIZE = 128 };

static const char list_key[] = LIVE_KEY("actions");

struct admin_actions {
    pthread_mutex_t mutex;
    char daemon[DAEMON_SIZE];
    char *noted[ADMIN_ACTIONS_MAX]; /* JSON texts, the oldest first */
    size_t count;
};

struct admin_actions *admin_actions_open(void)
{
    struct admin_actions *actions = calloc(1, sizeof *actions);
    if (!actions)
        abort();
    pthread_mutex_init(&actions->mutex, NULL);
    return actions;
}

/* Forgets the first `count` of those noted. The mutex is locked, or the last thread is this one. */
static void forget(struct admin_actions *actions, size_t count)
{
    assert(count <= actions->count);
    for (size_t i = 0; i < count; i++)
        free(actions->noted[i]);
    actions->count -= count;
    memmove(actions->noted, actions->noted + count, actions->count * sizeof *actions->noted);
}

void admin_actions_close(struct admin_actions **actions)
{
    if (*actions) {
        forget(*actions, (*actions)->count);
        pthread_mutex_destroy(&(*actions)->mutex);
    }
    free(*actions);
    *actions = NULL;
}

void admin_actions_name(struct admin_actions *actions, const char *daemon)
{
    pthread_mutex_lock(&actions->mutex);
    snprintf(actions->daemon, sizeof actions->daemon, "%s", daemon);
    pthread_mutex_unlock(&actions->mutex);
}

static char *action_text(const struct admin_actions *actions, const struct admin_action *action)
{
    char at[LEDGER_TIME_SIZE];
    ledger_time_format(clock_wall_ms(), at);
    const char *sku = action->sku[0] != '\0' ? action->sku : NULL;
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s*, s:s, s:i, s:s}", "at", at, "daemon", actions->daemon,
                  "action", action->action, "sku", sku, "detail", action->detail, "status",
                  (int)action->status, "address", action->address);
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (!text)
        abort();
    return text;
}

void admin_actions_note(struct admin_actions *actions, const struct admin_action *action)
{
    pthread_mutex_lock(&actions->mutex);
    if (actions->count == ADMIN_ACTIONS_MAX)
        forget(actions, 1);
    actions->noted[actions->count++] = action_text(actions, action);
    pthread_mutex_unlock(&actions->mutex);
}

/* Copies of what is noted, for the caller to free; their number. */
static size_t copy_noted(struct admin_actions *actions, char *texts_out[ADMIN_ACTIONS_MAX])
{
    pthread_mutex_lock(&actions->mutex);
    size_t count = actions->count;
    for (size_t i = 0; i < count; i++)
        if (!(texts_out[i] = strdup(actions->noted[i])))
            abort();
    pthread_mutex_unlock(&actions->mutex);
    return count;
}

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
}

/* Others may have noted more meanwhile, so that the first ones were dropped: only what was sent
 * goes. */
static void forget_sent(struct admin_actions *actions, const char *last)
{
    pthread_mutex_lock(&actions->mutex);
    for (size_t i = actions->count; i > 0; i--) {
        if (strcmp(actions->noted[i - 1], last) != 0)
            continue;
        forget(actions, i);
        break;
    }
    pthread_mutex_unlock(&actions->mutex);
}

void admin_actions_flush(struct admin_actions *actions, struct redis *redis)
{
    char *texts[ADMIN_ACTIONS_MAX];
    struct command commands[ADMIN_ACTIONS_MAX + 1] = {{.argc = 0}};
    size_t count = copy_noted(actions, texts);
    bool sent = count > 0;
    for (size_t i = 0; i < count; i++)
        commands[i] = (struct command){.argc = 3, .argv = {"LPUSH", list_key, texts[i]}};
    commands[count] = (struct command){.argc = 4, .argv = {"LTRIM", list_key, "0", "99"}};
    if (count > 0)
        command_run(redis, commands, count + 1);
    for (size_t i = 0; i < count; i++)
        sent = sent && commands[i].result == REDIS_ANSWERED;
    command_clear(commands, count > 0 ? count + 1 : 0);
    if (sent)
        forget_sent(actions, texts[count - 1]);
    free_texts(texts, count);
}

/* Adds an action that is none of those already there: one whose sending was in doubt is there
 * twice. */
static void add(json_t *list, const char *text)
{
    json_t *action = json_loads(text, 0, NULL);
    bool known = !json_is_object(action) || json_array_size(list) >= ADMIN_ACTIONS_MAX;
    for (size_t i = 0; !known && i < json_array_size(list); i++)
        known = json_equal(action, json_array_get(list, i));
    if (known)
        json_decref(action);
    else
        json_array_append_new(list, action);
}

/* Those noted are read first: one that is moved between the two readings is in both. */
json_t *admin_actions_list(struct admin_actions *actions, struct redis *redis)
{
    char *texts[ADMIN_ACTIONS_MAX];
    struct command read = {.argc = 4, .argv = {"LRANGE", list_key, "0", "99"}};
    size_t count = copy_noted(actions, texts);
    command_run(redis, &read, 1);
    json_t *list = read.result == REDIS_ANSWERED ? json_array() : NULL;
    for (size_t i = count; list && i > 0; i--)
        add(list, texts[i - 1]);
    for (int i = 0; list && i < command_count(&read); i++) {
        const char *text = command_text(&read, i, NULL);
        if (text)
            add(list, text);
    }
    command_clear(&read, 1);
    free_texts(texts, count);
    return list;
}
