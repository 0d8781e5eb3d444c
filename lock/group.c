/* The multi lock: all of several locks or none, in one global order. */
#include <assert.h>

#include "lock/lock.h"

/* Keeps what is already held alive while the rest is waited for: renews each hold that has used up
 * half of its lease. */
static enum lock_result group_keep(struct lock_client *client, struct lock_hold *holds, size_t held)
{
    for (size_t i = 0; i < held; i++) {
        if (lock_remaining_ms(client, &holds[i]) > holds[i].lease_ms / 2)
            continue;
        enum lock_result result = lock_renew(client, &holds[i]);
        if (result != LOCK_OK)
            return result;
    }
    return LOCK_OK;
}

enum lock_result lock_group_acquire(struct lock_client *client, const char *const *names,
                                    size_t count, int wait_ms, struct lock_hold *holds_out)
{
    assert(count <= LOCK_GROUP_MAX);
    enum lock_result result = LOCK_OK;
    size_t held = 0;
    int slice_ms = 50; /* of waiting for one lock, between looks at those already held */
    int waited_ms = 0;
    for (size_t i = 0; i < count; i++)
        holds_out[i] = (struct lock_hold){.state = LOCK_RELEASED};
    while (held < count && result == LOCK_OK) {
        result = lock_acquire(client, names[held], slice_ms, &holds_out[held]);
        if (result == LOCK_OK)
            held++;
        else if (result == LOCK_TIMEOUT && (waited_ms += slice_ms) < wait_ms)
            result = LOCK_OK;
        if (result == LOCK_OK)
            result = group_keep(client, holds_out, held);
    }
    /* The one that failed last may be in doubt: releasing it settles that as well. */
    if (result != LOCK_OK)
        lock_group_release(client, holds_out, held < count ? held + 1 : held);
    return result;
}

void lock_group_release(struct lock_client *client, struct lock_hold *holds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        lock_release(client, &holds[i]);
}
