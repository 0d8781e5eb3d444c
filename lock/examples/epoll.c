/* Takes several locks at once on one thread, which waits by epoll(7). */
#include <sys/epoll.h>
#include <unistd.h>

#include "three_locks.h"

int main(void)
{
    struct seclock_loop *loop = locks_begin();
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event wanted = {.events = EPOLLIN}, ready;
    epoll_ctl(epoll, EPOLL_CTL_ADD, seclock_loop_fd(loop), &wanted);
    while (locks_released < LOCKS)
        if (epoll_wait(epoll, &ready, 1, -1) == 1)
            locks_on_events(loop);
    close(epoll);
    locks_end(loop);
    return 0;
}
