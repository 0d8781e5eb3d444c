/* The daemons that share a Redis: each says once a second how it is, and reads what others say. */
#include "service/live/live_group.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lua/command.h"

#define TEXT(number) #number
#define TEXT_OF(number) TEXT(number)
#define GONE_MS 60000
#define MEMBERS_MAX 256
#define SAID_LAST 16383 /* the last byte that is read of what a member says */

static_assert(GONE_MS == LIVE_GONE_MS && MEMBERS_MAX == LIVE_MEMBERS_MAX &&
                  SAID_LAST == LIVE_SAID_MAX - 1,
              "the texts agree");

static const char set_key[] = LIVE_KEY("daemons");
static const char daemon_key[] = LIVE_KEY("daemon:");

enum {
    KEY_SIZE = sizeof daemon_key + LIVE_NAME_SIZE,
    OWN_COMMANDS = 3, /* that say how this daemon is, and ask how many there are */
};

struct member {
    char name[LIVE_NAME_SIZE];
    json_t *said; /* NULL: not read yet */
    int64_t age_ms, read_ns;
};

struct live_group {
    char name[LIVE_NAME_SIZE], key[KEY_SIZE];
    struct member members[LIVE_MEMBERS_MAX]; /* the others, in order of their names */
    size_t count;
    unsigned size; /* names in the set */
};

static void key_of(const char *name, char key_out[KEY_SIZE])
{
    snprintf(key_out, KEY_SIZE, "%s%s", daemon_key, name);
}

struct live_group *live_group_open(const char *name)
{
    struct live_group *group = calloc(1, sizeof *group);
    if (!group)
        abort();
    snprintf(group->name, sizeof group->name, "%s", name);
    key_of(group->name, group->key);
    return group;
}

void live_group_close(struct live_group **group)
{
    for (size_t i = 0; *group && i < (*group)->count; i++)
        json_decref((*group)->members[i].said);
    free(*group);
    *group = NULL;
}

/* ---- the members ---- */

static int by_name(const void *a, const void *b)
{
    const struct member *one = a, *other = b;
    return strcmp(one->name, other->name);
}

/* Of the names in the set, those that are new become members; they are asked in the next turn. */
static void learn(struct live_group *group, const struct command *names)
{
    size_t known = group->count;
    for (int i = 0; i < command_count(names) && group->count < LIVE_MEMBERS_MAX; i++) {
        const char *name = command_text(names, i, NULL);
        struct member wanted = {.said = NULL};
        if (!name || strlen(name) >= LIVE_NAME_SIZE || strcmp(name, group->name) == 0)
            continue;
        memcpy(wanted.name, name, strlen(name) + 1);
        if (!bsearch(&wanted, group->members, known, sizeof wanted, by_name))
            group->members[group->count++] = wanted;
    }
    qsort(group->members, group->count, sizeof *group->members, by_name);
}

/* Notes what a member has said; false when its key is gone, or holds what no daemon says. */
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
    json_decref(member->said);
    member->said = object;
    member->age_ms = left_ms < LIVE_GONE_MS ? LIVE_GONE_MS - left_ms : 0;
    member->read_ns = now_ns;
    return true;
}

/* Keeps those that are still there; `asked` holds two commands of each. The names of the others go
 * out of the set: should one be alive after all, it puts its name back within a second. */
static void keep(struct live_group *group, const struct command *asked, struct redis *redis,
                 int64_t now_ns)
{
    struct command forget[LIVE_MEMBERS_MAX];
    struct member gone[LIVE_MEMBERS_MAX];
    size_t kept = 0, gone_count = 0;
    for (size_t i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        if (note(member, &asked[2 * i], &asked[2 * i + 1], now_ns)) {
            group->members[kept++] = *member;
            continue;
        }
        json_decref(member->said);
        gone[gone_count] = *member;
        forget[gone_count] =
            (struct command){.argc = 3, .argv = {"SREM", set_key, gone[gone_count].name}};
        gone_count++;
    }
    group->count = kept;
    if (gone_count > 0)
        command_run(redis, forget, gone_count);
    command_clear(forget, gone_count);
}

/* ---- one turn ---- */

static size_t post_own(const struct live_group *group, const char *text, struct command *out)
{
    out[0] = (struct command){.argc = 5, .argv = {"SET", group->key, text, "PX", TEXT_OF(GONE_MS)}};
    out[1] = (struct command){.argc = 3, .argv = {"SADD", set_key, group->name}};
    out[2] = (struct command){.argc = 2, .argv = {"SCARD", set_key}};
    return OWN_COMMANDS;
}

static size_t post_look(const struct live_group *group, char (*keys)[KEY_SIZE], struct command *out)
{
    for (size_t i = 0; i < group->count; i++) {
        key_of(group->members[i].name, keys[i]);
        out[2 * i] =
            (struct command){.argc = 4, .argv = {"GETRANGE", keys[i], "0", TEXT_OF(SAID_LAST)}};
        out[2 * i + 1] = (struct command){.argc = 2, .argv = {"PTTL", keys[i]}};
    }
    out[2 * group->count] =
        (struct command){.argc = 3, .argv = {"SRANDMEMBER", set_key, TEXT_OF(MEMBERS_MAX)}};
    return 2 * group->count + 1;
}

/* Whether the first commands and the last one were answered, and so were all: a refusal in between
 * concerns one member's key, which holds something else. */
static bool is_answered(const struct command *commands, size_t count)
{
    bool answered = commands[count - 1].result == REDIS_ANSWERED;
    for (size_t i = 0; i < OWN_COMMANDS; i++)
        answered = answered && commands[i].result == REDIS_ANSWERED;
    return answered;
}

bool live_group_turn(struct live_group *group, struct redis *redis, const char *text,
                     int64_t now_ns)
{
    struct command commands[OWN_COMMANDS + 2 * LIVE_MEMBERS_MAX + 1];
    char keys[LIVE_MEMBERS_MAX][KEY_SIZE];
    struct command *asked = commands + OWN_COMMANDS;
    size_t count = post_own(group, text, commands);
    count += post_look(group, keys, asked);
    command_run(redis, commands, count);
    bool answered = is_answered(commands, count);
    if (answered) {
        keep(group, asked, redis, now_ns);
        learn(group, &commands[count - 1]);
        group->size = (unsigned)command_int(&commands[OWN_COMMANDS - 1], -1);
    }
    command_clear(commands, count);
    return answered;
}

unsigned live_group_others(const struct live_group *group)
{
    return group->size > 0 ? group->size - 1 : 0;
}

size_t live_group_list(const struct live_group *group, json_t *list, int64_t now_ns)
{
    size_t known = 0, shown = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct member *member = &group->members[i];
        int64_t age_ms = member->age_ms + (now_ns - member->read_ns) / CLOCK_NS_PER_MS;
        if (!member->said || age_ms >= LIVE_GONE_MS)
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
        {.argc = 3, .argv = {"SREM", set_key, group->name}},
        {.argc = 2, .argv = {"DEL", group->key}},
    };
    command_run(redis, commands, 2);
    command_clear(commands, 2);
}
