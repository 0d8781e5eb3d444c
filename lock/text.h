/* Private to lock/: the values that cross the public interface: failure reasons, names, growing
 * structs. */
#ifndef LOCK_TEXT_H
#define LOCK_TEXT_H

#include "lock/seclock.h"

/* Keeps the reason of a failure for seclock_error, for the calling thread. The second returns the
 * result, for a return in one line. */
void lock_set_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
enum seclock_result lock_fail(enum seclock_result result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What becomes of a break that found no holder: SECLOCK_NOT_OWNER, or SECLOCK_UNKNOWN when it was
 * sent twice, because the first sending may have taken the lock away. */
enum seclock_result lock_none_held(bool repeated);

/* SECLOCK_OK when the text may name a lock, otherwise SECLOCK_CONFIG with the reason. */
enum seclock_result lock_name_check(const char *name);

enum { LOCK_PATH_MAX = 400 }; /* bytes of a lock's path, with its NUL */

/* Writes "/seclock/PREFIX.NAME", the path of a lock for servers whose keys are paths; without a
 * prefix "/seclock/NAME". Both are encoded, so neither has a slash, nor the dot between them. */
void lock_path(const char *prefix, const char *name, char path_out[LOCK_PATH_MAX]);

/* The structs of the public header begin with `size_t size`, which the caller sets.
 *
 * Copies a caller's struct into the library's, which has `size` bytes; fields that the caller does
 * not know are 0. False, with the reason in seclock_error: the caller's size is not set (below
 * `size_min`, that of the first release), or the caller uses a field that the library does not
 * know. */
bool lock_sized_read(void *known_out, size_t size, size_t size_min, const void *given);

/* Copies the library's struct into a caller's, as much of it as the caller knows, and keeps the
 * caller's size. False as above. */
bool lock_sized_write(void *given, size_t size, size_t size_min, const void *known);

#endif
