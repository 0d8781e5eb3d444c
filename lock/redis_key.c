/* Writes the names of the Redis keys of a lock. */
#include "lock/redis_key.h"

#include <assert.h>
#include <string.h>

void lock_redis_key(const char *prefix, const char *name, const char *field, char *key_out)
{
    assert(strlen(prefix) + strlen(name) + strlen(field) + sizeof "{}:" <= SCRIPT_KEY_MAX);
    char *end = stpcpy(key_out, prefix);
    *end++ = '{';
    end = stpcpy(stpcpy(end, name), "}:");
    stpcpy(end, field);
}
