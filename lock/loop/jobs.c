/* Runs jobs on a few threads. */
#include "lock/loop/jobs.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/worker.h"

struct jobs {
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    STAILQ_HEAD(, job) queue;
    int waiting;
    int idle; /* threads that wait for a job */
    int threads;
    bool stopping;
    pthread_t thread[JOBS_THREADS_MAX];
};

struct jobs *jobs_open(void)
{
    struct jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return NULL;
    pthread_mutex_init(&jobs->mutex, NULL);
    pthread_cond_init(&jobs->changed, NULL);
    STAILQ_INIT(&jobs->queue);
    return jobs;
}

void jobs_close(struct jobs **place)
{
    struct jobs *jobs = *place;
    *place = NULL;
    if (!jobs)
        return;
    pthread_mutex_lock(&jobs->mutex);
    jobs->stopping = true;
    pthread_cond_broadcast(&jobs->changed);
    pthread_mutex_unlock(&jobs->mutex);
    for (int i = 0; i < jobs->threads; i++)
        pthread_join(jobs->thread[i], NULL);
    pthread_cond_destroy(&jobs->changed);
    pthread_mutex_destroy(&jobs->mutex);
    free(jobs);
}

static void *work(void *argument)
{
    struct jobs *jobs = argument;
    pthread_mutex_lock(&jobs->mutex);
    while (!jobs->stopping) {
        struct job *job = STAILQ_FIRST(&jobs->queue);
        if (!job) {
            jobs->idle++;
            pthread_cond_wait(&jobs->changed, &jobs->mutex);
            jobs->idle--;
            continue;
        }
        STAILQ_REMOVE_HEAD(&jobs->queue, in_queue);
        jobs->waiting--;
        pthread_mutex_unlock(&jobs->mutex);
        job->run(job);
        pthread_mutex_lock(&jobs->mutex);
    }
    pthread_mutex_unlock(&jobs->mutex);
    return NULL;
}

bool jobs_add(struct jobs *jobs, struct job *job)
{
    pthread_mutex_lock(&jobs->mutex);
    if (jobs->waiting >= jobs->idle && jobs->threads < JOBS_THREADS_MAX &&
        worker_thread(&jobs->thread[jobs->threads], work, jobs))
        jobs->threads++;
    bool added = jobs->threads > 0;
    if (added) {
        STAILQ_INSERT_TAIL(&jobs->queue, job, in_queue);
        jobs->waiting++;
        pthread_cond_signal(&jobs->changed);
    }
    pthread_mutex_unlock(&jobs->mutex);
    return added;
}
