/* One script call to each of several servers, all at the same time. */
#ifndef LUA_SCRIPT_EACH_H
#define LUA_SCRIPT_EACH_H

#include "lua/script.h"

enum { SCRIPT_EACH_MAX = 32 };

/* A connection on which answers may be late. The caller owns the client in it and uses it for
 * nothing else while answers are owed. */
struct script_line {
    struct redis *redis;
    size_t owed; /* replies that nobody waits for any more; they come before any new one */
    bool skip;   /* not asked this time: its call is REDIS_FAILED */
};

/* Connects what is not connected, all at once and each within its client's time-out; sends calls[i]
 * on lines[i], and waits until all are answered, `enough` of them (0: all) with a 1 as first value,
 * or `wait_ms` are over since they were sent. A call not answered by then is REDIS_UNKNOWN; its
 * answer is owed. Since a server answers in order, whatever is sent on the same line later is done
 * later. */
void script_run_each(struct script_line *lines, struct script_call *calls, size_t count,
                     size_t enough, int wait_ms);

#endif
