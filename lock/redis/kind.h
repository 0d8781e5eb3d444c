/* Private to lock/: the functions that the Redis kinds share. The server itself is the state of
 * each driver; a row of constants holds the differences between the kinds. */
#ifndef LOCK_REDIS_KIND_H
#define LOCK_REDIS_KIND_H

#include "lock/client.h"
#include "lock/redis/server.h"

/* A script of a kind; without `keys` there is no script. */
struct redis_step {
    enum script_id id;
    const char *keys;      /* as redis_server_begin takes them */
    const char *arguments; /* one letter each: see text_argument */
};

struct redis_steps {
    struct redis_step acquire; /* answers {1, fence[, holds]}, {0, ms left} or a code of refusals */
    struct redis_step renew;   /* answers {1[, fence]} or {0[, 1: it is another's]} */
    struct redis_step release; /* answers 1 or 0 */
    struct redis_step leave;   /* runs when a caller gives up its wait */
    struct redis_step proclaim; /* as renew, which it replaces for a hold with a value */
    bool reads;                 /* acquire changes nothing: no answer leaves no doubt */
};

/* The `row` of the driver of a Redis kind. */
struct redis_row {
    const char *field; /* the lock's key is prefix{name}:field, and so is its waiters' channel */
    /* A release sends: "1" wakes one waiter of each process, "*" all, "" none. */
    const char *message;
    const char *others[4]; /* fields of the other keys that a break deletes; NULL ends */
    struct redis_steps steps;
    const struct redis_steps *read_steps; /* of SECLOCK_MODE_READ; NULL: `steps` */

    /* True: the lock is a hash as lock_reenter.lua says, and its token the owner's. False: a
     * string, the holder's token, or with `holds` a set; the token is the request's. */
    bool owned;
    const char *holds; /* field of a sorted set of holds, each HOLDER, `mark` and more, scored by
                          the time at which it ends, in ms of the server */
    char mark;
    const char *limit; /* field of the number of permits */
    const char *queue; /* field of the list of waiters; each waiter then has its own channel */

    /* A waiter counts as alive after a try for three times the time until its next try, within
     * these bounds; 0: for ever. */
    int alive_ms_min, alive_ms_max;
};

/* ---- functions of the driver table, for all kinds with a row ---- */

enum seclock_result redis_kind_open(struct lock_core *core, const char *server, void **self_out);
enum seclock_result redis_kind_acquire(void *self, struct seclock_handle *handle);
bool redis_kind_call(void *self, const struct seclock_handle *handle, enum lock_step step,
                     struct script_call *call_out);
enum seclock_result redis_kind_answer(struct seclock_handle *handle, enum lock_step step,
                                      const struct script_call *call);
void redis_kind_channel(void *self, const struct seclock_handle *handle, int *wait_ms,
                        char channel_out[LOCK_CHANNEL_MAX]);
void redis_kind_wait(void *self, struct seclock_handle *handle, int wait_ms);
void redis_kind_stop_waiting(void *self, struct seclock_handle *handle, bool acquired);
/* Deletes the keys of the row and wakes the waiters. */
enum seclock_result redis_kind_break(const struct lock_driver *driver, void *self,
                                     const char *name);
enum seclock_result redis_kind_status(const struct lock_driver *driver, void *self,
                                      const char *name, struct seclock_status *status_out);
/* Reads the record of lock_proclaim.lua, which counts if it is of the hold that stands. */
enum seclock_result redis_kind_leader(const struct lock_driver *driver, void *self,
                                      const char *name, struct seclock_leader *leader_out);
/* Writes the key of that record, which is also the channel that tells of proclamations. */
void redis_kind_leader_key(const struct redis_row *row, const struct redis_server *server,
                           const char *name, char key_out[SCRIPT_KEY_MAX]);
/* Warns when the server may evict locks. */
enum seclock_result redis_kind_check(void *self, char *warning_out, size_t size);

/* Answers of the scripts of latches other than 0 and 1, and what they mean to the caller. */
enum { LATCH_NEVER_SET = 5, LATCH_SET_AGAIN = 6 };
enum seclock_result redis_latch_refused(int64_t answer);

/* For functions of the public header that have no handle: checks the name, gives the server. */
enum seclock_result redis_kind_server(struct seclock_client *client, const char *name,
                                      struct redis_server **server_out);

#endif
