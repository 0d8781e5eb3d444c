/* The daemons that share a Redis: each reports its state once a second, and reads the others'
 * reports. */
#include "service/live/live_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "lua/command.h"

#define TEXT(number) #number
#define TEXT_OF(number) TEXT(number)
#define GONE_MS 60000   /* after a daemon's last report */
#define MEMBERS_MAX 256 /* asked for at most, in case many died within a minute */
#define SAID_LAST 16383 /* last byte read of a report; a longer one counts as gone */

static const char set_key[] = LIVE_KEY("daemons");
static const char daemon_key[] = LIVE_KEY("daemon:");

enum { KEY_SIZE = sizeof daemon_key + LIVE_NAME_SIZE };

struct member {
    char key[KEY_SIZE];
    json_t *said;
    int64_t age_ms, read_ns;
};

struct live_group {
    char key[KEY_SIZE];                 /* this daemon's */
    struct member members[MEMBERS_MAX]; /* the others, sorted by name */
    size_t count;
    unsigned others; /* names in the set except this daemon's */
};

static void make_key(const char *name, char key_out[KEY_SIZE])
{
    snprintf(key_out, KEY_SIZE, "%s%s", daemon_key, name);
}

static const char *name_of(const char *key)
{
    return key + strlen(daemon_key);
}

struct live_group *live_group_open(const char *name)
{
    struct live_group *group = memory_must(calloc(1, sizeof *group));
    make_key(name, group->key);
    return group;
}

static void forget_members(struct live_group *group)
{
    for (size_t i = 0; i < group->count; i++)
        json_decref(group->members[i].said);
    group->count = 0;
}

void live_group_close(struct live_group **group)
{
    if (*group)
        forget_members(*group);
    free(*group);
    *group = NULL;
}

/* ---- the members ---- */

static int by_key(const void *a, const void *b)
{
    const struct member *one = a, *other = b;
    return strcmp(one->key, other->key);
}

/* Lists the set's other daemons, sorted by name; returns their number. */
static size_t list_others(const struct live_group *group, const struct command *names,
                          struct member others_out[MEMBERS_MAX])
{
    size_t count = 0;
    for (int i = 0; i < command_count(names) && count < MEMBERS_MAX; i++) {
        const char *name = command_text(names, i, NULL);
        if (!name || strlen(name) >= LIVE_NAME_SIZE || strcmp(name, name_of(group->key)) == 0)
            continue;
        make_key(name, others_out[count++].key);
    }
    qsort(others_out, count, sizeof *others_out, by_key);
    return count;
}

/* Notes a member's report; false when its key is gone, or holds no report. */
static bool note(struct member *member, const struct command *said, const struct command *left,
                 int64_t now_ns)
{
    size_t length = 0;
    const char *text = command_text(said, -1, &length);
    int64_t left_ms = command_int(left, -1);
    json_t *object = text ? json_loadb(text, length, 0, NULL) : NULL;
    if (!json_is_object(object) || left_ms <= 0) {
        json_decref(object);
        return false;
    }
    member->said = object;
    member->age_ms = left_ms < GONE_MS ? GONE_MS - left_ms : 0;
    member->read_ns = now_ns;
    return true;
}

/* Keeps the members with a report; `answers` holds two for each. Removes the other names from the
 * set: a daemon that is alive after all adds its name again within a second. */
static void take(struct live_group *group, struct member *others, size_t count,
                 const struct command *answers, struct redis *redis, int64_t now_ns)
{
    struct command forget[MEMBERS_MAX];
    size_t gone = 0;
    forget_members(group);
    for (size_t i = 0; i < count; i++)
        if (note(&others[i], &answers[2 * i], &answers[2 * i + 1], now_ns))
            group->members[group->count++] = others[i];
        else
            forget[gone++] =
                (struct command){.argc = 3, .argv = {"SREM", set_key, name_of(others[i].key)}};
    if (gone > 0)
        command_run(redis, forget, gone);
    command_clear(forget, gone);
}

/* ---- one turn ---- */

/* Asks for the others' reports. A refusal concerns one member, whose key holds something else; the
 * last command is never refused. */
static bool ask_others(struct live_group *group, struct redis *redis, struct member *others,
                       size_t count, int64_t now_ns)
{
    struct command asked[2 * MEMBERS_MAX];
    for (size_t i = 0; i < count; i++) {
        const char *key = others[i].key;
        asked[2 * i] =
            (struct command){.argc = 4, .argv = {"GETRANGE", key, "0", TEXT_OF(SAID_LAST)}};
        asked[2 * i + 1] = (struct command){.argc = 2, .argv = {"PTTL", key}};
    }
    if (count > 0)
        command_run(redis, asked, 2 * count);
    bool answered = count == 0 || asked[2 * count - 1].result == REDIS_ANSWERED;
    if (answered)
        take(group, others, count, asked, redis, now_ns);
    command_clear(asked, 2 * count);
    return answered;
}

bool live_group_turn(struct live_group *group, struct redis *redis, const char *text,
                     int64_t now_ns)
{
    struct command own[] = {
        {.argc = 5, .argv = {"SET", group->key, text, "PX", TEXT_OF(GONE_MS)}},
        {.argc = 3, .argv = {"SADD", set_key, name_of(group->key)}},
        {.argc = 3, .argv = {"SRANDMEMBER", set_key, TEXT_OF(MEMBERS_MAX)}},
    };
    struct member others[MEMBERS_MAX];
    command_run(redis, own, 3);
    bool answered = own[0].result == REDIS_ANSWERED && own[1].result == REDIS_ANSWERED &&
                    own[2].result == REDIS_ANSWERED;
    if (answered) {
        size_t count = list_others(group, &own[2], others);
        group->others = (unsigned)count;
        answered = ask_others(group, redis, others, count, now_ns);
    }
    command_clear(own, 3);
    return answered;
}

unsigned live_group_others(const struct live_group *group)
{
    return group->others;
}

size_t live_group_list(const struct live_group *group, json_t *list, int64_t now_ns)
{
    size_t known = 0, shown = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct member *member = &group->members[i];
        int64_t age_ms = member->age_ms + (now_ns - member->read_ns) / CLOCK_NS_PER_MS;
        if (age_ms >= GONE_MS)
            continue;
        if (++known >= LIVE_DAEMONS_MAX)
            continue;
        json_t *object = json_copy(member->said);
        json_object_set_new(object, "age_ms", json_integer(age_ms));
        json_array_append_new(list, object);
        shown++;
    }
    return known - shown;
}

void live_group_leave(struct live_group *group, struct redis *redis)
{
    struct command commands[] = {
        {.argc = 3, .argv = {"SREM", set_key, name_of(group->key)}},
        {.argc = 2, .argv = {"DEL", group->key}},
    };
    command_run(redis, commands, 2);
    command_clear(commands, 2);
}
