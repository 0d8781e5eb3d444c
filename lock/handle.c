/* Keeps the state of one hold, and answers questions about it from any thread. */
#include "lock/handle.h"

#include <assert.h>
#include <poll.h>

#include "lock/process.h"

enum { NS_PER_MS = 1000000, REQUEST_MS_MIN = 100 };

bool handle_inherited(const struct seclock_handle *handle)
{
    return handle->generation != process_generation();
}

bool handle_reports_loss(const struct seclock_handle *handle)
{
    return handle->on_lost || handle->lapses || handle->logs;
}

bool handle_watched(const struct seclock_handle *handle)
{
    return handle->renews || handle_reports_loss(handle);
}

int64_t handle_valid_ns(int lease_ms)
{
    int64_t lease_ns = (int64_t)lease_ms * NS_PER_MS;
    assert(lease_ms > 0);
    return lease_ns - lease_ns / 100 - 2 * NS_PER_MS;
}

/* why_looking_changes_the_state: once one thread has seen that the deadline has passed, no renewal
 * that arrives late may turn the answer back. So the first look writes LOST, by compare and swap
 * against a renewal that moves the deadline at the same time. */
enum seclock_state seclock_state(const struct seclock_handle *handle)
{
    struct seclock_handle *seen = (struct seclock_handle *)(uintptr_t)handle;
    int state = handle->state;
    if (handle_inherited(handle) && state != SECLOCK_STATE_RELEASED)
        return SECLOCK_STATE_LOST;
    while ((state == SECLOCK_STATE_HELD || state == SECLOCK_STATE_UNKNOWN) &&
           handle->now_ns() >= handle->deadline_ns)
        if (atomic_compare_exchange_weak(&seen->state, &state, SECLOCK_STATE_LOST))
            return SECLOCK_STATE_LOST;
    return (enum seclock_state)state;
}

void handle_keep_loss(struct seclock_handle *handle, enum seclock_loss loss)
{
    int none = SECLOCK_LOSS_NONE;
    atomic_compare_exchange_strong(&handle->why_lost, &none, (int)loss);
}

/* A hold that nobody has declared lost is so because its deadline has passed. */
enum seclock_loss seclock_loss(const struct seclock_handle *handle)
{
    if (handle_inherited(handle) && handle->state != SECLOCK_STATE_RELEASED)
        return SECLOCK_LOSS_PARENT;
    enum seclock_state state = seclock_state(handle); /* first: the reason is kept before it */
    int kept = handle->why_lost;
    if (state == SECLOCK_STATE_HELD || state == SECLOCK_STATE_UNKNOWN)
        return SECLOCK_LOSS_NONE;
    if (state == SECLOCK_STATE_RELEASED || kept != SECLOCK_LOSS_NONE)
        return (enum seclock_loss)kept;
    bool over = handle->hold_ms_max > 0 &&
                handle->now_ns() - handle->acquired_ns >= (int64_t)handle->hold_ms_max * NS_PER_MS;
    return !handle->renews || over ? SECLOCK_LOSS_ENDED : SECLOCK_LOSS_UNANSWERED;
}

int64_t seclock_remaining_ms(const struct seclock_handle *handle)
{
    if (seclock_state(handle) != SECLOCK_STATE_HELD)
        return 0;
    assert(handle->deadline_ns > 0);
    int64_t left_ns = handle->deadline_ns - handle->now_ns();
    return left_ns > 0 ? left_ns / NS_PER_MS : 0;
}

uint64_t seclock_fence(const struct seclock_handle *handle)
{
    return handle->fence;
}

int seclock_hold_count(const struct seclock_handle *handle)
{
    return handle->hold_count > 0 ? handle->hold_count : 1;
}

const char *seclock_name(const struct seclock_handle *handle)
{
    return handle->name;
}

const char *seclock_token(const struct seclock_handle *handle)
{
    return handle->token ? handle->token : handle->owner;
}

/* A renewal whose answer comes after the deadline does not count, even if the server has extended
 * the lease: another thread may have seen the hold as lost meanwhile. The new deadline is counted
 * from the sending, because the server may have counted from then. */
bool handle_extend(struct seclock_handle *handle, enum seclock_result result, int64_t sent_ns,
                   int64_t now_ns)
{
    assert(handle->lease_ms > 0);
    int state = SECLOCK_STATE_UNKNOWN;
    assert(sent_ns <= now_ns);
    if (result == SECLOCK_LOST)
        handle_keep_loss(handle, SECLOCK_LOSS_FORGOTTEN); /* unless the driver knows better */
    if (result == SECLOCK_LOST || now_ns >= handle->deadline_ns)
        return false;
    if (result == SECLOCK_OK) {
        handle->deadline_ns = sent_ns + handle_valid_ns(handle->lease_ms);
        atomic_compare_exchange_strong(&handle->state, &state, SECLOCK_STATE_HELD);
    }
    return seclock_state(handle) != SECLOCK_STATE_LOST;
}

int handle_request_ms(const struct seclock_handle *handle, int timeout_ms)
{
    assert(timeout_ms > 0);
    int least_ms = timeout_ms < REQUEST_MS_MIN ? timeout_ms : REQUEST_MS_MIN;
    if (handle->until_ns == 0)
        return timeout_ms;
    int64_t left_ms = (handle->until_ns - handle->now_ns()) / NS_PER_MS;
    if (left_ms < least_ms)
        return least_ms;
    return left_ms < timeout_ms ? (int)left_ms : timeout_ms;
}

int handle_renewal_ms(struct seclock_handle *const *handles, size_t count, int least_ms,
                      int most_ms)
{
    assert(count > 0 && least_ms > 0 && most_ms > 0);
    int64_t now_ns = handles[0]->now_ns(), wait_ms = most_ms;
    for (size_t i = 0; i < count; i++) {
        int64_t left_ms = (handles[i]->deadline_ns - now_ns) / NS_PER_MS;
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    return wait_ms > least_ms ? (int)wait_ms : least_ms;
}

bool handle_sleep(const struct seclock_handle *handle, int ms)
{
    struct pollfd fd = {.fd = handle->cancel_fd > 0 ? handle->cancel_fd : -1, .events = POLLIN};
    assert(ms >= 0);
    return poll(&fd, 1, ms) > 0;
}
