/* Takes several locks at once on one thread, which waits by libevent. */
#include <event2/event.h>

#include "three_locks.h"

static struct event_base *base;

static void on_readable(evutil_socket_t fd, short events, void *loop)
{
    (void)fd, (void)events;
    locks_on_events(loop);
    if (locks_released == LOCKS)
        event_base_loopbreak(base);
}

int main(void)
{
    struct seclock_loop *loop = locks_begin();
    base = event_base_new();
    struct event *readable =
        event_new(base, seclock_loop_fd(loop), EV_READ | EV_PERSIST, on_readable, loop);
    event_add(readable, NULL);
    event_base_dispatch(base);
    event_free(readable);
    event_base_free(base);
    locks_end(loop);
    return 0;
}
