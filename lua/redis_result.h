/* What became of a command, and what a client has counted. */
#ifndef LUA_REDIS_RESULT_H
#define LUA_REDIS_RESULT_H

#include <stdint.h>

/* The outcome of one command. A server that says no has answered: that is REDIS_ANSWERED. */
enum redis_result {
    REDIS_ANSWERED, /* the reply arrived and is not an error */
    REDIS_FAILED,   /* certainly not done: the command was never sent, or Redis refused it */
    REDIS_UNKNOWN,  /* the command was sent and no reply came: Redis may have done it */
};

struct redis_stats {
    uint64_t connects; /* connections made, the first included */
    uint64_t failures; /* connections lost or not made */
    uint64_t reloads;  /* calls sent again with their text: the server did not know the script */
};

#endif
