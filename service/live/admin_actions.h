/* What operators did last, in the whole group of daemons.
 *
 * A call worker notes what it did in memory, so that no admin call waits for Redis; the live thread
 * moves the notes to a list in Redis that all daemons share. The list is for the page and is as
 * durable as Redis; the record that lasts is the log. */
#ifndef SECKILL_SERVICE_LIVE_ADMIN_ACTIONS_H
#define SECKILL_SERVICE_LIVE_ADMIN_ACTIONS_H

#include <stdbool.h>

struct admin_actions;
struct json_t;
struct redis;

enum { ADMIN_ACTIONS_MAX = 100 }; /* in the list, and noted in memory while Redis is away */

struct admin_action {
    const char *action;  /* a word */
    const char *sku;     /* "": it concerned no sale */
    const char *detail;  /* what changed */
    const char *address; /* of the caller */
    unsigned status;     /* of the answer */
};

struct admin_actions *admin_actions_open(void);
void admin_actions_close(struct admin_actions **actions);

/* The name of this daemon in what is noted from now on. Any thread. */
void admin_actions_name(struct admin_actions *actions, const char *daemon);

/* Notes one action, with the time; the oldest goes where there are too many. Any thread. */
void admin_actions_note(struct admin_actions *actions, const struct admin_action *action);

/* Moves what is noted to the list; what may not have arrived is kept. Live thread. */
void admin_actions_flush(struct admin_actions *actions, struct redis *redis);

/* The actions, newest first, as an array for the caller to release: those noted here and not moved
 * yet, and the list. NULL when Redis does not answer. Any thread with a connection of its own. */
struct json_t *admin_actions_list(struct admin_actions *actions, struct redis *redis);

#endif
