/* Parts of the seam of lua/redis.h for the simulation alone. */
#ifndef SIMULATE_SEAM_REDIS_H
#define SIMULATE_SEAM_REDIS_H

#include <stdbool.h>

struct redis;
struct script_call;

/* Begins a schedule: no connection has a descriptor. */
void seam_redis_begin(void);

/* Sends a call for whose answer nobody waits; it may be lost. */
void seam_redis_post(struct redis *redis, struct script_call *call);

/* True when a read of the connection would not block; else task_signal comes, with that address,
 * when it would not. */
bool seam_redis_readable(int fd, const void *signal);

#endif
