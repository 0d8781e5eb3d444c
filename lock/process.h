/* Private to lock/: state that exists once per process and is handled at a fork, unique numbers and
 * ids, and sections in which pthread_cancel has to wait. */
#ifndef LOCK_PROCESS_H
#define LOCK_PROCESS_H

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>

#include "lock/seclock.h"

/* The number of forks between the first process and this one. An object with a smaller number was
 * made by a parent. */
int process_generation(void);

/* Guards the opening of drivers and the remaking of a client's core; a fork waits for it, so that
 * the child never inherits it locked. Held briefly. process_lock also begins to count forks. */
void process_lock(void);
void process_unlock(void);

/* A mutex that a fork takes and gives back on both sides, so that the child finds its data whole.
 * Its holder takes no other such mutex, nor process_lock. process_guard initialises it, and
 * process_unguard destroys it; between the two the caller keeps the struct in place, in a child for
 * ever. */
struct process_guard {
    pthread_mutex_t *mutex;
    LIST_ENTRY(process_guard) in_process;
};

void process_guard(struct process_guard *guard, pthread_mutex_t *mutex);
void process_unguard(struct process_guard *guard);

/* A number that this process uses only once. */
uint64_t process_next_number(void);

/* The number of the calling thread as an owner. Never used again, unlike thread ids. */
uint64_t process_thread_number(void);

/* A uniform random number below bound > 0, good enough for jitter. Any thread. */
unsigned lock_random(unsigned bound);

/* 128 random bits as 32 hexadecimal digits and a NUL. */
enum { LOCK_RANDOM_SIZE = 33 };
void lock_random_text(char text_out[LOCK_RANDOM_SIZE]);

/* Sleeps for a random time of 1 ms to `most_ms`, so that colliding callers drift apart. */
void lock_random_pause(unsigned most_ms);

/* Writes a new id for a client of this process: 72 random bits, 24 of the process number, 32 of the
 * host's address, as hexadecimal digits. Every token of the client's holds begins with it. */
void process_client_id(char id_out[LOCK_RANDOM_SIZE]);

/* Fills in the process and the host of the status, if its holder begins with an id. */
void process_read_id(struct seclock_status *status);

static inline int uncancelled_begin(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void uncancelled_end(const int *before)
{
    pthread_setcancelstate(*before, NULL);
}

/* Until the end of the block pthread_cancel of this thread has to wait. A thread that ended there
 * would stay the leader of the waiting threads (redis/waiter.h), or leave a mutex locked. */
#define UNCANCELLED                                                                                \
    __attribute__((cleanup(uncancelled_end), unused)) int uncancelled = uncancelled_begin()

#endif
