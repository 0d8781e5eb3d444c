/* The daemons that share a Redis: each reports its state once a second, and reads the others'
 * reports.
 *
 * A report is a key that Redis deletes 60 s after its last write; the daemon's name is in a set.
 * The age of another daemon's report follows from its key's remaining time, so only Redis' clock
 * counts. */
#ifndef SECKILL_SERVICE_LIVE_LIVE_GROUP_H
#define SECKILL_SERVICE_LIVE_LIVE_GROUP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lua/redis.h"
#include "stock/stock.h"

enum {
    LIVE_DAEMONS_MAX = 64, /* shown at most, with this one */
    LIVE_NAME_SIZE = 128,
};

struct live_group;

/* `name`: this daemon's, unique in the group. All functions: one thread. */
struct live_group *live_group_open(const char *name);
void live_group_close(struct live_group **group);

/* Reports `text`, one JSON object, reads the other daemons' reports, in two round trips, and
 * forgets daemons that are gone. False when Redis did not answer: then the known reports stay, and
 * age. */
bool live_group_turn(struct live_group *group, struct redis *redis, const char *text,
                     int64_t now_ns);

/* The number of other daemons that Redis knew of when it last answered, 256 at most. One that has
 * died may be counted for two minutes. */
unsigned live_group_others(const struct live_group *group);

/* Appends the other daemons' objects, each with its age_ms, sorted by name. Returns the number left
 * out beyond LIVE_DAEMONS_MAX - 1. */
size_t live_group_list(const struct live_group *group, json_t *list, int64_t now_ns);

/* Deletes this daemon's report: it leaves the group. */
void live_group_leave(struct live_group *group, struct redis *redis);

/* ---- keys ---- */

/* The braces keep all keys in one slot of a cluster. */
#define LIVE_KEY(field) STOCK_PREFIX "{live}:" field

#endif
