/* Handles the values that cross the public interface: failure reasons, names, growing structs. */
#include "lock/text.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[256];

/* One text per thread, so that no call overwrites the reason of another thread's call. */
void lock_set_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
}

enum seclock_result lock_fail(enum seclock_result result, const char *format, ...)
{
    assert(result != SECLOCK_OK);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return result;
}

enum seclock_result lock_none_held(bool repeated)
{
    return repeated ? lock_fail(SECLOCK_UNKNOWN, "an answer was lost; nobody holds the lock now")
                    : SECLOCK_NOT_OWNER;
}

const char *seclock_error(void)
{
    return last_error;
}

/* A leading '}' would end the hash tag of the keys before it began. */
enum seclock_result lock_name_check(const char *name)
{
    if (name && name[0] != '\0' && name[0] != '}' && strlen(name) < SECLOCK_NAME_MAX)
        return SECLOCK_OK;
    return lock_fail(SECLOCK_CONFIG, "a name has 1 to %d bytes and does not begin with '}'",
                     SECLOCK_NAME_MAX - 1);
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

#define LOSS_NAME(id, text) [SECLOCK_LOSS_##id] = text,
static const char *const loss_names[] = {SECLOCK_LOSSES(LOSS_NAME)};
#undef LOSS_NAME

const char *seclock_loss_name(enum seclock_loss loss)
{
    return (unsigned)loss < SECLOCK_LOSS_COUNT ? loss_names[loss] : "?";
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

/* ---- paths ---- */

static void append_encoded(char path[LOCK_PATH_MAX], const char *text)
{
    size_t used = strlen(path);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = isalnum(c) || strchr("_-:,@+=~", c);
        assert(used + 4 < LOCK_PATH_MAX);
        used += (size_t)snprintf(path + used, 4, plain ? "%c" : "%%%02X", c);
    }
}

void lock_path(const char *prefix, const char *name, char path_out[LOCK_PATH_MAX])
{
    static_assert(sizeof "/seclock/." + 3 * (SECLOCK_PREFIX_MAX + SECLOCK_NAME_MAX) <=
                      LOCK_PATH_MAX,
                  "the longest prefix and name fit");
    strcpy(path_out, "/seclock/");
    append_encoded(path_out, prefix);
    if (prefix[0] != '\0')
        strcat(path_out, ".");
    append_encoded(path_out, name);
}

/* ---- structs of callers ---- */

/* Reads a struct's size, its first member. */
static bool size_is_set(const void *given, size_t size_min, size_t *size_out)
{
    memcpy(size_out, given, sizeof *size_out);
    if (*size_out >= size_min)
        return true;
    lock_set_error("a struct has no size: make it with SECLOCK_REQUEST(...) or its like");
    return false;
}

bool lock_sized_read(void *known_out, size_t size, size_t size_min, const void *given)
{
    size_t given_size;
    assert(size_min <= size);
    memset(known_out, 0, size);
    if (!size_is_set(given, size_min, &given_size))
        return false;
    /* why_refuse_unknown_fields: ignoring a field would not do what the caller asked. */
    for (size_t i = size; i < given_size; i++)
        if (((const char *)given)[i] != 0) {
            lock_set_error("a struct has fields of a later release than this library");
            return false;
        }
    memcpy(known_out, given, given_size < size ? given_size : size);
    return true;
}

bool lock_sized_write(void *given, size_t size, size_t size_min, const void *known)
{
    size_t given_size;
    assert(size_min <= size);
    if (!size_is_set(given, size_min, &given_size))
        return false;
    memset((char *)given + sizeof given_size, 0, given_size - sizeof given_size);
    memcpy((char *)given + sizeof given_size, (const char *)known + sizeof given_size,
           (given_size < size ? given_size : size) - sizeof given_size);
    return true;
}
