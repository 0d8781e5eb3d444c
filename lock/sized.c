/* Copies structs between a caller and a library of different releases. */
#include "lock/sized.h"

#include <assert.h>
#include <string.h>

#include "lock/text.h"

static size_t size_of(const void *sized)
{
    size_t size;
    memcpy(&size, sized, sizeof size); /* the first member of each of them */
    return size;
}

static bool size_is_set(size_t given_size, size_t size_min)
{
    if (given_size >= size_min)
        return true;
    lock_set_error("a struct has no size: make it with SECLOCK_REQUEST(...) or its like");
    return false;
}

bool lock_sized_read(void *known_out, size_t size, size_t size_min, const void *given)
{
    size_t given_size = size_of(given);
    assert(size_min <= size);
    memset(known_out, 0, size);
    if (!size_is_set(given_size, size_min))
        return false;
    /* why_refuse_unknown_fields: to ignore a field would be to do something else than was asked. */
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
    size_t given_size = size_of(given);
    assert(size_min <= size);
    if (!size_is_set(given_size, size_min))
        return false;
    memset((char *)given + sizeof given_size, 0, given_size - sizeof given_size);
    memcpy((char *)given + sizeof given_size, (const char *)known + sizeof given_size,
           (given_size < size ? given_size : size) - sizeof given_size);
    return true;
}
