/* Takes several locks at once on one thread, which waits by libuv. */
#include <uv.h>

#include "three_locks.h"

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    locks_on_events(poll->data);
    if (locks_released == LOCKS)
        uv_poll_stop(poll); /* nothing is left to wait for: uv_run returns */
}

int main(void)
{
    struct seclock_loop *loop = locks_begin();
    uv_poll_t poll = {.data = loop};
    uv_poll_init(uv_default_loop(), &poll, seclock_loop_fd(loop));
    uv_poll_start(&poll, UV_READABLE, on_readable);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&poll, NULL);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    uv_loop_close(uv_default_loop());
    locks_end(loop);
    return 0;
}
