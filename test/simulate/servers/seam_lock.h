/* Parts of the seams of lock/ and lua/ for the simulation alone. */
#ifndef SIMULATE_SEAM_LOCK_H
#define SIMULATE_SEAM_LOCK_H

struct redis;
struct script_call;

/* Begins a schedule: tokens count from one. */
void seam_lock_begin(void);

/* Sends a call for whose answer nobody waits; it may be lost. */
void seam_redis_post(struct redis *redis, struct script_call *call);

#endif
