/* Private to lock/: one acquisition as a sequence of steps. seclock_acquire takes them one after
 * another on the caller's thread; a loop (loop/) takes them without waiting for any. Both follow
 * the same rules, which are here: when to try, how long to sleep, when to give up, what it comes
 * to. */
#ifndef LOCK_ACQUISITION_H
#define LOCK_ACQUISITION_H

#include "lock/handle.h"

enum acquisition_step {
    ACQUISITION_TRY,       /* acquisition_sent, the driver's acquire, acquisition_answered */
    ACQUISITION_GIVE_BACK, /* the driver's release, acquisition_answered */
    ACQUISITION_SLEEP,     /* up to sleep_ms, then acquisition_slept */
    ACQUISITION_LEAVE,     /* the driver's stop_waiting, acquisition_left */
    ACQUISITION_DONE,
};

struct acquisition {
    struct seclock_handle *handle;
    enum acquisition_step step;
    enum seclock_result result; /* of the last step; with ACQUISITION_DONE, of all */
    int sleep_ms;
    bool told; /* ACQUISITION_SLEEP: the driver's wait, or its like in a loop, may end it early */

    /* Its own: */
    int wait_ms, lease_ms, pause_ms, retry_ms;
    int64_t began_ns;
    int64_t until_ns;  /* when the caller gives up */
    int64_t sent_ns;   /* when the present try was sent */
    int64_t failed_ns; /* start of the servers' silence; 0: the last one answered */
    bool doubtful, cancelled;
};

/* Gives the handle the text of a request that no server knows yet. */
void acquisition_number(struct seclock_handle *handle);

/* Begins the acquisition of a new handle: the first step is ACQUISITION_TRY. */
void acquisition_begin(struct acquisition *acquisition, struct seclock_handle *handle, int wait_ms);

/* Call right before the request leaves. False: no memory, and the try has failed already. */
bool acquisition_sent(struct acquisition *acquisition);

/* Each goes on to the next step; the last one keeps the reason of a failure for seclock_error.
 * `cancelled`: the caller has ended its wait. */
void acquisition_answered(struct acquisition *acquisition, enum seclock_result result);
void acquisition_slept(struct acquisition *acquisition, bool cancelled);
void acquisition_left(struct acquisition *acquisition);

#endif
