/* Private to lock/: structs of the public header that grow from release to release. Each begins
 * with `size_t size`, which the caller sets. */
#ifndef LOCK_SIZED_H
#define LOCK_SIZED_H

#include <stdbool.h>
#include <stddef.h>

/* Copies a caller's struct into the library's, which has `size` bytes; fields that the caller does
 * not know are 0. False, with the reason in seclock_error: the caller's size is not set (below
 * `size_min`, that of the first release), or the caller uses a field that the library does not
 * know. */
bool lock_sized_read(void *known_out, size_t size, size_t size_min, const void *given);

/* Copies the library's struct into a caller's, as much of it as the caller knows, and keeps the
 * caller's size. False as above. */
bool lock_sized_write(void *given, size_t size, size_t size_min, const void *known);

#endif
