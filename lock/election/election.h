/* Private to lock/: what the two forms of proclaiming share. */
#ifndef LOCK_ELECTION_ELECTION_H
#define LOCK_ELECTION_ELECTION_H

#include "lock/handle.h"

/* Checks and copies what a hold of this process is to proclaim. SECLOCK_OK: the caller frees the
 * copy, or gives it to lock_renew. SECLOCK_NOT_OWNER, SECLOCK_UNSUPPORTED, SECLOCK_CONFIG or
 * SECLOCK_FAILED (no memory). */
enum seclock_result election_value(const struct seclock_handle *handle, const char *value,
                                   char **copy_out);

#endif
