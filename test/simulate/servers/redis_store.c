/* The keys of the simulated Redis, which can be lost or go back in time. */
#include "test/simulate/servers/redis_store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { SLOTS = 128, WRITES_MAX = 64 /* that can be undone */ };

struct slot {
    uint64_t hash;
    char key[STORE_KEY_MAX];
    struct store_value value;
};

struct write {
    size_t slot;
    uint32_t script; /* the writes of one script are lost together, as Redis logs them */
    struct store_value before;
};

static struct slot slots[SLOTS];
static size_t slot_count;
static struct write writes[WRITES_MAX];  /* the last ones, in a ring */
static size_t write_count, write_oldest; /* all so far, and the first that is still known */
static uint32_t present_script;

void store_begin(void)
{
    slot_count = write_count = write_oldest = 0;
}

static struct slot *slot_of(const char *key)
{
    uint64_t hash = hash_text(key);
    for (size_t i = 0; i < slot_count; i++)
        if (slots[i].hash == hash && strcmp(slots[i].key, key) == 0)
            return &slots[i];
    assert(slot_count < SLOTS && strlen(key) < STORE_KEY_MAX);
    struct slot *slot = &slots[slot_count++];
    slot->hash = hash;
    strcpy(slot->key, key);
    slot->value.kind = STORE_NOTHING;
    return slot;
}

static void expire(struct slot *slot, int64_t now_ms)
{
    struct store_value *value = &slot->value;
    if (value->kind != STORE_NOTHING && value->expires_ms != 0 && value->expires_ms <= now_ms)
        value->kind = STORE_NOTHING;
}

const struct store_value *store_get(const char *key, int64_t now_ms)
{
    struct slot *slot = slot_of(key);
    expire(slot, now_ms);
    return &slot->value;
}

struct store_value *store_change(const char *key, int64_t now_ms)
{
    struct slot *slot = slot_of(key);
    expire(slot, now_ms);
    struct write *write = &writes[write_count++ % WRITES_MAX];
    if (write_count - write_oldest > WRITES_MAX)
        write_oldest = write_count - WRITES_MAX;
    write->slot = (size_t)(slot - slots);
    write->script = present_script;
    write->before.kind = slot->value.kind;
    if (slot->value.kind == STORE_NOTHING)
        slot->value = (struct store_value){.kind = STORE_NOTHING};
    else
        write->before = slot->value;
    return &slot->value;
}

const char *store_field(const struct store_value *value, const char *name)
{
    for (int i = 0; i < value->count; i++)
        if (strcmp(value->fields[i].name, name) == 0)
            return value->fields[i].text;
    return NULL;
}

void store_field_set(struct store_value *value, const char *name, const char *text)
{
    int i = 0;
    while (i < value->count && strcmp(value->fields[i].name, name) != 0)
        i++;
    assert(i < STORE_FIELDS_MAX && strlen(name) < STORE_FIELD_MAX && strlen(text) < STORE_TEXT_MAX);
    if (i == value->count)
        strcpy(value->fields[value->count++].name, name);
    strcpy(value->fields[i].text, text);
}

bool store_is_same(const struct store_value *a, const struct store_value *b)
{
    if (a->kind != b->kind || (a->kind != STORE_NOTHING && a->count != b->count))
        return false;
    for (int i = 0; a->kind != STORE_NOTHING && i < a->count; i++)
        if (strcmp(a->fields[i].name, b->fields[i].name) != 0 ||
            strcmp(a->fields[i].text, b->fields[i].text) != 0)
            return false;
    return true;
}

void store_lose_all(void)
{
    slot_count = write_count = write_oldest = 0;
}

void store_script(void)
{
    present_script++;
}

/* Stops where a script's first writes may have been overwritten. */
void store_rewind(size_t scripts)
{
    uint32_t last = 0, partial = write_oldest > 0 ? writes[write_oldest % WRITES_MAX].script : 0;
    for (size_t lost = 0; write_count > write_oldest; write_count--) {
        const struct write *write = &writes[(write_count - 1) % WRITES_MAX];
        if (lost == 0 || write->script != last)
            lost++;
        if (lost > scripts || write->script == partial)
            break;
        last = write->script;
        slots[write->slot].value = write->before;
    }
}

void store_evict(uint32_t number)
{
    if (slot_count > 0)
        slots[number % slot_count].value.kind = STORE_NOTHING;
}

void store_each(void (*visit)(const char *key, const struct store_value *value))
{
    for (size_t i = 0; i < slot_count; i++)
        if (slots[i].value.kind != STORE_NOTHING)
            visit(slots[i].key, &slots[i].value);
}
