/* Counts forks, and numbers threads and owners. */
#include "lock/process.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_watch = PTHREAD_ONCE_INIT;
static atomic_int generation;

/* A thread that holds the mutex at the fork does not exist in the child, which would wait for
 * ever: so the forking thread takes it. */
static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static void after_fork_in_child(void)
{
    atomic_fetch_add(&generation, 1);
    pthread_mutex_unlock(&mutex);
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
