/* Private to lock/loop/: acquisitions, renewals and releases as a loop carries them out. */
#ifndef LOCK_LOOP_OPERATION_H
#define LOCK_LOOP_OPERATION_H

#include "lock/loop/loop.h"

/* Begins an operation, which ends with the event `what`. */
void operation_begin(struct operation *operation, enum seclock_event_kind what, int wait_ms);

/* Each goes on. */
void operation_wake(struct operation *operation); /* its sleep has ended */
void operation_done(struct operation *operation); /* its job has */
void operation_cancel(struct operation *operation);

/* Ends it without an event; may wait for a server. */
void operation_abandon(struct operation *operation);

#endif
