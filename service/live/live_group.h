/* The daemons that share a Redis: each says once a second how it is, and reads what others say.
 *
 * What a daemon says is a key that Redis deletes 60 s after the daemon wrote it last; its name
 * stands in a set. The age of what another daemon said follows from the time that its key has
 * left, so only Redis' clock counts. */
#ifndef SECKILL_SERVICE_LIVE_LIVE_GROUP_H
#define SECKILL_SERVICE_LIVE_LIVE_GROUP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lua/redis.h"
#include "stock/stock.h"

enum {
    LIVE_DAEMONS_MAX = 64, /* that are shown, this one included */
    LIVE_NAME_SIZE = 128,
};

struct live_group;

/* `name`: this daemon's, unique in the group. All functions are for one thread. */
struct live_group *live_group_open(const char *name);
void live_group_close(struct live_group **group);

/* Says `text`, one JSON object, reads what the others have said, in two round trips, and forgets
 * those that are gone. False when Redis did not answer: then what is known of the others stays, and
 * ages. */
bool live_group_turn(struct live_group *group, struct redis *redis, const char *text,
                     int64_t now_ns);

/* How many other daemons Redis knew of when it last answered, 256 at most. One that has died may be
 * counted for two minutes. */
unsigned live_group_others(const struct live_group *group);

/* Appends the other daemons' objects to the list, each with its age_ms, in order of their names.
 * Returns how many there are beyond the LIVE_DAEMONS_MAX - 1 that are appended. */
size_t live_group_list(const struct live_group *group, json_t *list, int64_t now_ns);

/* Takes back what this daemon has said: it leaves the group. */
void live_group_leave(struct live_group *group, struct redis *redis);

/* ---- keys ---- */

/* The braces keep all of them in one slot of a cluster. */
#define LIVE_KEY(field) STOCK_PREFIX "{live}:" field

#endif
