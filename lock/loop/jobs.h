/* Private to lock/loop/: a few threads for what has to wait for a server. They start when there is
 * work, and block all signals. */
#ifndef LOCK_LOOP_JOBS_H
#define LOCK_LOOP_JOBS_H

#include <stdbool.h>
#include <sys/queue.h>

enum { JOBS_THREADS_MAX = 4 };

/* Part of what is to be done. `run` is called once, on one of the threads. */
struct job {
    void (*run)(struct job *job);
    STAILQ_ENTRY(job) in_queue;
};

struct jobs;

/* NULL: no memory. */
struct jobs *jobs_open(void);

/* Ends the threads, after the jobs that they have begun; the others do not run. */
void jobs_close(struct jobs **jobs);

/* Jobs begin in the order in which they are added. False: there is no thread for it, nor can one be
 * started. */
bool jobs_add(struct jobs *jobs, struct job *job);

#endif
