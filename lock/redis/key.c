/* Writes the names of the Redis keys of a lock. */
#include "lock/redis/key.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "lock/seclock.h"

void lock_redis_key(const char *prefix, const char *name, const char *field, char *key_out)
{
    assert(strlen(prefix) + strlen(name) + strlen(field) + sizeof "{}:" <= SCRIPT_KEY_MAX);
    char *end = stpcpy(key_out, prefix);
    *end++ = '{';
    end = stpcpy(stpcpy(end, name), "}:");
    stpcpy(end, field);
}

/* why_four: an owner may release other holds of the name before it repeats a release, each of which
 * has a number of its own. Where two texts meet in one key, the later release is remembered: a key
 * says nothing that the request in it does not prove. */
void lock_redis_released(const char *base, const char *request, char field_out[LOCK_FIELD_MAX])
{
    enum { KEYS_OF_OWNER = 4 };
    char owner[SECLOCK_TOKEN_MAX];
    snprintf(owner, sizeof owner, "%s", request);
    char *number = strrchr(owner, '-'); /* OWNER-NUMBER; an id of another form is taken whole */
    unsigned turn = 0;
    if (number) {
        turn = (unsigned)(strtoull(number + 1, NULL, 16) % KEYS_OF_OWNER);
        *number = '\0';
    }
    uint64_t hash = hash_text(owner) & 0xffffffff;
    int used = snprintf(field_out, LOCK_FIELD_MAX, "%s:%08" PRIx64 "%u", base, hash, turn);
    assert(used < LOCK_FIELD_MAX);
}
