/* The keys of the simulated Redis, which can be lost or go back in time. */
#ifndef SIMULATE_REDIS_STORE_H
#define SIMULATE_REDIS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STORE_TEXT_MAX = 48, STORE_FIELD_MAX = 16, STORE_FIELDS_MAX = 8, STORE_KEY_MAX = 64 };

struct store_field {
    char name[STORE_FIELD_MAX];
    char text[STORE_TEXT_MAX];
};

/* A string is the text of one field. */
struct store_value {
    enum { STORE_NOTHING, STORE_STRING, STORE_HASH } kind;
    int64_t expires_ms; /* by the server's clock; 0: never */
    int count;
    struct store_field fields[STORE_FIELDS_MAX];
};

/* Empties the store, and forgets that it was ever filled. */
void store_begin(void);

/* The value of a key, of kind STORE_NOTHING if there is none at that time. Valid until the next
 * call that changes the store. */
const struct store_value *store_get(const char *key, int64_t now_ms);

/* The same to be changed: notes what it was before, for store_rewind. */
struct store_value *store_change(const char *key, int64_t now_ms);

/* The field of a hash; NULL: it has none of that name. */
const char *store_field(const struct store_value *value, const char *name);
void store_field_set(struct store_value *value, const char *name, const char *text);

/* True when both say the same, whenever they expire. */
bool store_is_same(const struct store_value *a, const struct store_value *b);

/* A script begins: what it writes stands or falls together. */
void store_script(void);

/* Losses: everything, what the last `scripts` wrote, one key (by its number). */
void store_lose_all(void);
void store_rewind(size_t scripts);
void store_evict(uint32_t number);

/* Calls `visit` with every key that is there. */
void store_each(void (*visit)(const char *key, const struct store_value *value));

#endif
