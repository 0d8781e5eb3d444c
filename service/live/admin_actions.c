/* The latest actions of operators, in the whole group of daemons. */
#include "service/live/admin_actions.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "lua/command.h"
#include "service/live/live_group.h"
#include "sql/ledger/ledger.h"

enum { DAEMON_SIZE = 128 };

static const char list_key[] = LIVE_KEY("actions");

struct admin_actions {
    pthread_mutex_t mutex;
    char daemon[DAEMON_SIZE];
    json_t *unsent; /* at most ADMIN_ACTIONS_MAX, oldest first */
};

struct admin_actions *admin_actions_open(void)
{
    struct admin_actions *actions = memory_must(calloc(1, sizeof *actions));
    actions->unsent = memory_must(json_array());
    pthread_mutex_init(&actions->mutex, NULL);
    return actions;
}

void admin_actions_close(struct admin_actions **actions)
{
    if (*actions) {
        json_decref((*actions)->unsent);
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

void admin_actions_note(struct admin_actions *actions, const struct admin_action *action)
{
    char at[LEDGER_TIME_SIZE];
    const char *sku = action->sku[0] != '\0' ? action->sku : NULL;
    ledger_time_format(clock_wall_ms(), at);
    pthread_mutex_lock(&actions->mutex);
    json_t *noted =
        json_pack("{s:s, s:s, s:s, s:s*, s:s, s:i, s:s}", "at", at, "daemon", actions->daemon,
                  "action", action->action, "sku", sku, "detail", action->detail, "status",
                  (int)action->status, "address", action->address);
    if (json_array_append_new(actions->unsent, noted) != 0)
        abort();
    if (json_array_size(actions->unsent) > ADMIN_ACTIONS_MAX)
        json_array_remove(actions->unsent, 0);
    pthread_mutex_unlock(&actions->mutex);
}

/* A copy that no other thread sees; the caller releases it. */
static json_t *copy_unsent(struct admin_actions *actions)
{
    pthread_mutex_lock(&actions->mutex);
    json_t *copy = memory_must(json_deep_copy(actions->unsent));
    pthread_mutex_unlock(&actions->mutex);
    return copy;
}

/* Removes only what was sent: other threads may have added notes meanwhile, and dropped the
 * oldest. */
static void forget_sent(struct admin_actions *actions, const json_t *last)
{
    pthread_mutex_lock(&actions->mutex);
    size_t sent = json_array_size(actions->unsent);
    while (sent > 0 && !json_equal(json_array_get(actions->unsent, sent - 1), last))
        sent--;
    for (; sent > 0; sent--)
        json_array_remove(actions->unsent, 0);
    pthread_mutex_unlock(&actions->mutex);
}

void admin_actions_flush(struct admin_actions *actions, struct redis *redis)
{
    char *texts[ADMIN_ACTIONS_MAX];
    struct command commands[ADMIN_ACTIONS_MAX + 1] = {{.argc = 0}};
    json_t *unsent = copy_unsent(actions);
    size_t count = json_array_size(unsent);
    bool sent = count > 0;
    for (size_t i = 0; i < count; i++) {
        texts[i] = memory_must(json_dumps(json_array_get(unsent, i), JSON_COMPACT));
        commands[i] = (struct command){.argc = 3, .argv = {"LPUSH", list_key, texts[i]}};
    }
    commands[count] = (struct command){.argc = 4, .argv = {"LTRIM", list_key, "0", "99"}};
    if (count > 0)
        command_run(redis, commands, count + 1);
    for (size_t i = 0; i < count; i++) {
        sent = sent && commands[i].result == REDIS_ANSWERED;
        free(texts[i]);
    }
    command_clear(commands, count > 0 ? count + 1 : 0);
    if (sent)
        forget_sent(actions, json_array_get(unsent, count - 1));
    json_decref(unsent);
}

/* Adds an action unless it is there: one whose sending was in doubt is in both lists. */
static void add(json_t *list, json_t *action)
{
    bool known = !json_is_object(action) || json_array_size(list) >= ADMIN_ACTIONS_MAX;
    for (size_t i = 0; !known && i < json_array_size(list); i++)
        known = json_equal(action, json_array_get(list, i));
    if (!known)
        json_array_append(list, action);
    json_decref(action);
}

/* Reads the notes first: one that is moved between the two readings is in both. */
json_t *admin_actions_list(struct admin_actions *actions, struct redis *redis)
{
    struct command read = {.argc = 4, .argv = {"LRANGE", list_key, "0", "99"}};
    json_t *unsent = copy_unsent(actions);
    command_run(redis, &read, 1);
    json_t *list = read.result == REDIS_ANSWERED ? json_array() : NULL;
    for (size_t i = json_array_size(unsent); list && i > 0; i--)
        add(list, json_incref(json_array_get(unsent, i - 1)));
    for (int i = 0; list && i < command_count(&read); i++) {
        const char *text = command_text(&read, i, NULL);
        if (text)
            add(list, json_loads(text, 0, NULL));
    }
    command_clear(&read, 1);
    json_decref(unsent);
    return list;
}
