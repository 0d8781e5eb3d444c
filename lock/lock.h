/* Private to lock/: what the two forms of acquiring, renewing and releasing share: the functions of
 * seclock.h that wait, and the loop. */
#ifndef LOCK_LOCK_H
#define LOCK_LOCK_H

#include "lock/handle.h"

/* Reads a caller's request. SECLOCK_OK, SECLOCK_CONFIG, or SECLOCK_UNSUPPORTED for a latch. */
enum seclock_result lock_request_read(struct seclock_request *known_out,
                                      const struct seclock_request *given);

/* Reads a request that waits for a latch: SECLOCK_OK or SECLOCK_CONFIG. */
enum seclock_result lock_latch_read(struct seclock_request *latch_out,
                                    const struct seclock_request *given);

/* Checks a request and makes its handle, which has sent nothing yet. */
enum seclock_result lock_prepare(struct seclock_client *client,
                                 const struct seclock_request *request,
                                 struct seclock_handle **handle_out);

/* Does as seclock_acquire after its checks; a latch is acquired when it is open, and has no
 * release. */
enum seclock_result lock_acquire(struct seclock_client *client,
                                 const struct seclock_request *request,
                                 struct seclock_handle **handle_out);

/* False, with the reason in seclock_error: this process never acquired it, or has released it. */
bool lock_is_owned(const struct seclock_handle *handle);

/* False, with the result of the renewal and its reason, when it need not be sent. */
bool lock_may_renew(const struct seclock_handle *handle, enum seclock_result *result_out);

/* Renews a hold; with a `value`, which it takes over, by lock_driver.proclaim. */
enum seclock_result lock_renew(struct seclock_handle *handle, char *value);

/* Sets what the renewal that has begun is to proclaim, and takes it over; NULL: nothing new.
 * lock_renewed restores the former value if the new one was certainly not proclaimed. */
void lock_value_begin(struct seclock_handle *handle, char *value);

/* Applies the answer to a renewal that was sent at `sent_ns`, after watchdog_renewal_begin if the
 * watchdog renews the hold. Returns the result for the caller. */
enum seclock_result lock_renewed(struct seclock_handle *handle, enum seclock_result result,
                                 int64_t sent_ns);

/* Applies the answer to a release; `before` was the hold's state when it was sent, after
 * watchdog_remove. Returns the result for the caller. */
enum seclock_result lock_released(struct seclock_handle *handle, enum seclock_state before,
                                  enum seclock_result result);

#endif
