/* The latest actions of operators, in the whole group of daemons.
 *
 * A call worker notes its action in memory, so that no admin call waits for Redis; the live thread
 * moves the notes to a list in Redis that all daemons share. The list is for the page, and only as
 * durable as Redis; the lasting record is the log. */
#ifndef SECKILL_SERVICE_LIVE_ADMIN_ACTIONS_H
#define SECKILL_SERVICE_LIVE_ADMIN_ACTIONS_H

#include <stdbool.h>

struct admin_actions;
struct json_t;
struct redis;

enum { ADMIN_ACTIONS_MAX = 100 }; /* in the list, and in memory while Redis is away */

struct admin_action {
    const char *action;  /* a word */
    const char *sku;     /* "": no sale is concerned */
    const char *detail;  /* what changed */
    const char *address; /* the caller's */
    unsigned status;     /* the answer's */
};

struct admin_actions *admin_actions_open(void);
void admin_actions_close(struct admin_actions **actions);

/* Sets this daemon's name in later notes. Any thread. */
void admin_actions_name(struct admin_actions *actions, const char *daemon);

/* Notes one action, with the time; the oldest is dropped when there are too many. Any thread. */
void admin_actions_note(struct admin_actions *actions, const struct admin_action *action);

/* Moves the notes to the list; keeps those that may not have arrived. Live thread. */
void admin_actions_flush(struct admin_actions *actions, struct redis *redis);

/* The actions, newest first: the list, and notes not moved yet. The caller releases the array. NULL
 * when Redis does not answer. Any thread with its own connection. */
struct json_t *admin_actions_list(struct admin_actions *actions, struct redis *redis);

#endif
