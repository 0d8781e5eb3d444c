/* Private to lock/: the last error, and the check of names. */
#ifndef LOCK_TEXT_H
#define LOCK_TEXT_H

#include "lock/seclock.h"

/* Keeps the reason of a failure for seclock_error, for the calling thread. */
void lock_set_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, giving the result back: for a return in one line. */
enum seclock_result lock_fail(enum seclock_result result, const char *reason);

/* SECLOCK_OK when the text may be the name of a lock, otherwise SECLOCK_CONFIG with the reason. */
enum seclock_result lock_name_check(const char *name);

#endif
