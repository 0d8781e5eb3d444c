/* Private to lock/: state that exists once per process, and what a fork makes of it. */
#ifndef LOCK_PROCESS_H
#define LOCK_PROCESS_H

#include <stdint.h>

/* How many forks lie between the first process and this one. Whatever remembers a smaller number
 * was made by a parent. */
int process_generation(void);

/* Guards the opening of drivers and the remaking of a client's core; a fork waits for it, so that
 * the child never inherits it locked. Held briefly. process_lock also begins to count forks. */
void process_lock(void);
void process_unlock(void);

/* A number that this process uses only once. */
uint64_t process_next_number(void);

/* The number of the calling thread as an owner. Never used again, unlike thread ids. */
uint64_t process_thread_number(void);

#endif
