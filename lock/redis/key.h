/* The names of the Redis keys of a lock. Not part of the installed library. */
#ifndef LOCK_REDIS_KEY_H
#define LOCK_REDIS_KEY_H

#include "lua/script.h"

/* Writes the key `prefix{name}:field` (SCRIPT_KEY_MAX bytes). The braces make the name the hash
 * tag, so that all keys of one name share one cluster slot and one script may use them. */
void lock_redis_key(const char *prefix, const char *name, const char *field, char *key_out);

enum { LOCK_FIELD_MAX = 24 }; /* bytes of a field, with its NUL */

/* Writes the field of the key that remembers the release of a request, for a repeat: `base` and a
 * mark of the request's owner, so that the releases of others do not take its place. Each owner has
 * a few such keys, in turns. */
void lock_redis_released(const char *base, const char *request, char field_out[LOCK_FIELD_MAX]);

#endif
