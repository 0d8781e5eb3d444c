/* Private to lock/: acquires locks of kinds that seclock_acquire does not acquire. */
#ifndef LOCK_LOCK_H
#define LOCK_LOCK_H

#include "lock/seclock.h"

/* Does as seclock_acquire after its checks; a latch is acquired when it is open, and has no
 * release. */
enum seclock_result lock_acquire(struct seclock_client *client,
                                 const struct seclock_request *request,
                                 struct seclock_handle **handle_out);

#endif
