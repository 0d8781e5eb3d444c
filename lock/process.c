/* Counts forks, and numbers threads and owners. */
#include "lock/process.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_watch = PTHREAD_ONCE_INIT;
static atomic_int generation;
static pthread_mutex_t guards_mutex = PTHREAD_MUTEX_INITIALIZER; /* taken after `mutex` */
static LIST_HEAD(, process_guard) guards = LIST_HEAD_INITIALIZER(guards);

/* A thread that holds the mutex at the fork does not exist in the child, which would wait for
 * ever: so the forking thread takes it. */
static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&guards_mutex);
    const struct process_guard *i;
    LIST_FOREACH (i, &guards, in_process)
        pthread_mutex_lock(i->mutex);
}

static void after_fork_in_parent(void)
{
    const struct process_guard *i;
    LIST_FOREACH (i, &guards, in_process)
        pthread_mutex_unlock(i->mutex);
    pthread_mutex_unlock(&guards_mutex);
    pthread_mutex_unlock(&mutex);
}

static void after_fork_in_child(void)
{
    atomic_fetch_add(&generation, 1);
    after_fork_in_parent();
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int process_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

void process_lock(void)
{
    pthread_once(&fork_watch, watch_forks);
    pthread_mutex_lock(&mutex);
}

void process_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

void process_guard(struct process_guard *guard, pthread_mutex_t *guarded)
{
    guard->mutex = guarded;
    pthread_mutex_lock(&guards_mutex);
    LIST_INSERT_HEAD(&guards, guard, in_process);
    pthread_mutex_unlock(&guards_mutex);
}

void process_unguard(struct process_guard *guard)
{
    pthread_mutex_lock(&guards_mutex);
    LIST_REMOVE(guard, in_process);
    pthread_mutex_unlock(&guards_mutex);
}

uint64_t process_next_number(void)
{
    static _Atomic uint64_t numbers;
    return atomic_fetch_add(&numbers, 1) + 1;
}

/* why_not_the_thread_id: the system gives a dead thread's id to the next one, which would then own
 * the re-entrant locks that the dead one has never released. */
uint64_t process_thread_number(void)
{
    static _Thread_local uint64_t number;
    if (number == 0)
        number = process_next_number();
    return number;
}
