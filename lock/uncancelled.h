/* Private to lock/: keeps a thread from being cancelled inside a call. */
#ifndef LOCK_UNCANCELLED_H
#define LOCK_UNCANCELLED_H

#include <pthread.h>

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

/* Until the end of the block pthread_cancel of this thread has to wait. A thread that ended in the
 * middle would stay the leader of those who wait (waiter.h), or leave a mutex locked. */
#define UNCANCELLED                                                                                \
    __attribute__((cleanup(uncancelled_end), unused)) int uncancelled = uncancelled_begin()

#endif
