/* Text for callers: the last error, and the names of results, states and kinds. */
#include "lock/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[256];

/* Per thread, so that the reason of one call is not overwritten by a call of another thread. */
void lock_set_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
}

enum seclock_result lock_fail(enum seclock_result result, const char *reason)
{
    assert(result != SECLOCK_OK);
    lock_set_error("%s", reason);
    return result;
}

const char *seclock_error(void)
{
    return last_error;
}

/* A '}' in front would end the hash tag of the keys before it began. */
enum seclock_result lock_name_check(const char *name)
{
    if (name && name[0] != '\0' && name[0] != '}' && strlen(name) < SECLOCK_NAME_MAX)
        return SECLOCK_OK;
    lock_set_error("a name has 1 to %d bytes and does not begin with '}'", SECLOCK_NAME_MAX - 1);
    return SECLOCK_CONFIG;
}

#define RESULT_NAME(id, name) [SECLOCK_##id] = name,
static const char *const result_names[] = {SECLOCK_RESULTS(RESULT_NAME)};
#undef RESULT_NAME

const char *seclock_result_name(enum seclock_result result)
{
    return (unsigned)result < SECLOCK_RESULT_COUNT ? result_names[result] : "?";
}

const char *seclock_state_name(enum seclock_state state)
{
    static const char *const names[] = {"released", "held", "unknown", "lost"};
    return (unsigned)state < sizeof names / sizeof names[0] ? names[state] : "?";
}

#define KIND_NAME(id, name, scheme, what) [SECLOCK_KIND_##id] = name,
static const char *const kind_names[] = {SECLOCK_KINDS(KIND_NAME)};
#undef KIND_NAME

const char *seclock_kind_name(enum seclock_kind kind)
{
    return (unsigned)kind < SECLOCK_KIND_COUNT ? kind_names[kind] : "?";
}

bool seclock_kind_find(const char *name, enum seclock_kind *kind_out)
{
    for (int i = 0; i < SECLOCK_KIND_COUNT; i++)
        if (strcmp(kind_names[i], name) == 0) {
            *kind_out = (enum seclock_kind)i;
            return true;
        }
    return false;
}
