/* Sends one script call to each of several servers, all at the same time. */
#ifndef LUA_SCRIPT_EACH_H
#define LUA_SCRIPT_EACH_H

#include "lua/script.h"

enum { SCRIPT_EACH_MAX = 32 };

/* A connection on which replies may be late. The caller owns the client and uses it for nothing
 * else while replies are owed. */
struct script_line {
    struct redis *redis;
    size_t owed; /* replies to given-up calls; they come before the reply to any later call */
    bool skip;   /* the caller leaves this server out: its call is REDIS_FAILED */
};

/* Connects the lines that have no connection, all at once and each within its client's time-out.
 * Then sends calls[i] on lines[i] and waits until all calls are answered, or `enough` of them (0:
 * all) returned 1 as their first value, or `wait_ms` have passed since the sending. A call that is
 * not answered by then is REDIS_UNKNOWN, and its line owes the reply. A server runs a line's calls
 * in order, so a later call on the same line runs after it. */
void script_run_each(struct script_line *lines, struct script_call *calls, size_t count,
                     size_t enough, int wait_ms);

#endif
