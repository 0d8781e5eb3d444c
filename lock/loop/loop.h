/* Private to lock/loop/: what a loop polls, what it leaves to threads, and who sleeps in it. */
#ifndef LOCK_LOOP_LOOP_H
#define LOCK_LOOP_LOOP_H

#include <pthread.h>

#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/loop/jobs.h"
#include "lua/script_pipe.h"

struct waiter;
struct waiter_hub;

enum operation_phase { OPERATION_NONE, OPERATION_UNDER_WAY, OPERATION_ENDED };

/* Belongs to the loop's thread; the thread of a job has it meanwhile. */
struct operation {
    struct seclock_loop *loop; /* NULL: it was closed before the handle was freed */
    struct seclock_handle *handle;
    void *context; /* of the request */
    enum operation_phase phase;
    enum seclock_event_kind what; /* the event that it ends with */
    enum seclock_result result;   /* of its last step; once it has ended, its own */
    char *error;                  /* the reason of that; NULL: none, or no memory */

    struct acquisition acquisition;
    bool cancelled;
    enum seclock_state before; /* of a release: the hold's state when it was sent */
    int64_t sent_ns;           /* of a renewal */
    char *value;               /* that a renewal is to proclaim; NULL: none */

    struct due timer;      /* when its sleep ends */
    struct waiter *waiter; /* of a channel */
    int wait_fd;           /* that the loop polls; -1: none */

    struct job job;
    enum seclock_result (*work)(struct operation *operation); /* of the job */

    bool lost; /* an event of the loss waits to be taken; guarded by the loop's mutex */
    TAILQ_ENTRY(operation) in_loop;
    TAILQ_ENTRY(operation) in_ended;
    TAILQ_ENTRY(operation) in_done;
    TAILQ_ENTRY(operation) in_lost;
};

/* A client of Redis that the loop polls, as it polls it now. */
struct source {
    int fd; /* -1: not polled */
    bool writing;
    bool ready;        /* it has something to read, or room to send */
    uint64_t connects; /* tells apart two connections of one descriptor */
};

/* A connect that a thread waits for: of a hub, or without one of the pipe. */
struct connecting {
    struct job job;
    struct seclock_loop *loop;
    struct waiter_hub *hub;
    bool done; /* guarded by the loop's mutex */
};

/* A hub of waiters: there is one for the server, or one for each node of a cluster. */
struct loop_hub {
    struct source source;
    struct connecting connecting;
    SLIST_ENTRY(loop_hub) in_loop;
};

struct seclock_loop {
    struct seclock_client *client;
    struct lock_core *core; /* in a child of fork the client has another */
    int epoll_fd, timer_fd;
    int64_t timer_ns; /* when the timer ends; INT64_MAX: never */
    struct due_heap sleeping;
    TAILQ_HEAD(operations, operation) all;
    struct operations ended;  /* their events wait to be taken */
    struct script_pipe *pipe; /* NULL: until used, or scripts go by jobs */
    bool tried_pipe;
    struct source pipe_source;
    struct connecting pipe_connecting;
    SLIST_HEAD(, loop_hub) hubs;
    struct jobs *jobs[SECLOCK_KIND_COUNT]; /* by family of kinds */

    int inbox_fd;          /* an eventfd: others have put something in */
    pthread_mutex_t mutex; /* guards the lists below, which other threads add to */
    struct operations done;
    struct operations lost;
};

/* Makes and frees a loop. loop_open: NULL, no memory or descriptors. loop_close ends the threads
 * first, and then calls `abandon` for each operation that is left. */
struct seclock_loop *loop_open(struct seclock_client *client, struct lock_core *core);
void loop_close(struct seclock_loop *loop, void (*abandon)(struct operation *operation));

/* Keeps a result, and the reason of a failure, which is the calling thread's. */
void loop_keep_result(struct operation *operation, enum seclock_result result);

/* Leaves `work` of an operation to a thread; when that is done the operation is in `done`. False:
 * there is no thread. */
bool loop_job(struct operation *operation, enum seclock_result (*work)(struct operation *));

/* Returns the pipe of scripts to the client's Redis server; NULL: scripts are to go by jobs. */
struct script_pipe *loop_pipe(struct seclock_loop *loop);

/* Returns the hub for the waiters of a channel at that server; NULL: see redis_server_waiters. */
struct waiter_hub *loop_hub(struct seclock_loop *loop, const char *channel);

/* Puts an operation to sleep for `ms`; with `wait_fd` >= 0 until that is readable, too. */
void loop_sleep(struct operation *operation, int ms, int wait_fd);
void loop_stop_sleep(struct operation *operation);

/* Returns the next operation whose sleep is over; NULL: there is none. */
struct operation *loop_awake(const struct seclock_loop *loop);

/* Puts an operation whose hold was lost into `lost`, on any thread; and takes it out. */
void loop_lose(struct operation *operation);
void loop_forget_loss(struct operation *operation);

/* Reads what has come: moves the operations whose jobs are done to `done_out`, and lets go on what
 * is sent and received. loop_settle does the rest before the loop is polled again. */
void loop_read(struct seclock_loop *loop, struct operations *done_out);
void loop_settle(struct seclock_loop *loop);

/* Makes the loop's descriptor readable, on any thread. */
void loop_ring(struct seclock_loop *loop);

#endif
