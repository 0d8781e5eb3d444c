/* Private to lock/: acquisition with another wait than the request's. */
#ifndef LOCK_LOCK_H
#define LOCK_LOCK_H

#include "lock/seclock.h"

/* As seclock_acquire, but waits for `wait_ms` if that is not NULL. */
enum seclock_result lock_acquire(struct seclock_client *client,
                                 const struct seclock_request *request, const int *wait_ms,
                                 struct seclock_handle **handle_out);

#endif
