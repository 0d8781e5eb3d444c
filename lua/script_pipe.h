/* Calls the scripts of one Redis server from an event loop, in one pipeline over one connection.
 * Nothing here waits, but for script_pipe_connect, which the caller leaves to another thread.
 *
 *   script_pipe_send ──► waiting ──► sent ──► answered; or lost: sent once more, or REDIS_UNKNOWN
 *
 * For scripts that recognise a repeat: a call whose reply was lost is sent once more. */
#ifndef LUA_SCRIPT_PIPE_H
#define LUA_SCRIPT_PIPE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "lua/script.h"

struct script_pipe;

/* A call and what becomes of it. The caller allocates it with malloc, fills in the first part and
 * leaves it to the pipe, which calls `done` once, in script_pipe_turn, and frees it. `error` is the
 * reason of a call that is not REDIS_ANSWERED. */
struct script_sending {
    struct script_call call;
    bool publishes; /* its message is to reach the waiters before the answer reaches the caller */
    int limit_ms;   /* from script_pipe_send on: after it `done` comes, and nothing is sent again */
    void (*done)(void *context, const struct script_call *call, const char *error);
    void *context;

    /* The pipe's: */
    TAILQ_ENTRY(script_sending) in_pipe;
    int64_t until_ms, sent_ms;
    bool owes_pong; /* the reply to the PING before it is due */
    bool repeated;  /* an earlier sending was not answered */
    bool told;      /* `done` has been called: the reply, when it comes, is for nobody */
};

/* NULL: no memory, or the server is a cluster. */
struct script_pipe *script_pipe_open(const char *url, int timeout_ms);

/* Frees the calls that are left, without `done`. */
void script_pipe_close(struct script_pipe **pipe);

void script_pipe_send(struct script_pipe *pipe, struct script_sending *call);

/* Reads replies, sends what waits, gives up what is late. True: it is to be connected, on a thread
 * that may wait, by script_pipe_connect, and then told by script_pipe_connected. */
bool script_pipe_turn(struct script_pipe *pipe);
void script_pipe_connect(struct script_pipe *pipe);
void script_pipe_connected(struct script_pipe *pipe);

/* The server's address for messages. */
const char *script_pipe_place(const struct script_pipe *pipe);

/* The client to poll: NULL while there is no connection. */
const struct redis *script_pipe_redis(const struct script_pipe *pipe);

/* When script_pipe_turn is due although nothing has come; INT64_MAX: never. */
int64_t script_pipe_due_ms(const struct script_pipe *pipe);

#endif
