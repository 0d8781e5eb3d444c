/* Takes several locks at once on one thread, which waits by libevent: what each lock guards is done
 * when its event comes, and the program ends when all are released. */
#include <stdio.h>
#include <stdlib.h>

#include <event2/event.h>
#include <seclock.h>

enum { LOCKS = 3 };

static int released;

/* The loop's descriptor is readable: take every event. */
static void on_events(struct seclock_loop *loop)
{
    struct seclock_event event = SECLOCK_EVENT();
    while (seclock_loop_next(loop, &event)) {
        const char *name = seclock_name(event.handle);
        if (event.kind == SECLOCK_EVENT_ACQUIRED && event.result == SECLOCK_OK) {
            printf("held %s\n", name); /* and the guarded resource is shown seclock_fence */
            seclock_loop_release(loop, event.handle);
            continue;
        }
        if (event.result != SECLOCK_OK)
            fprintf(stderr, "%s: %s: %s\n", name, seclock_result_name(event.result),
                    seclock_error());
        if (event.kind == SECLOCK_EVENT_LOST)
            continue; /* the release, which is under way, ends with an event of its own */
        seclock_free(&event.handle);
        released++;
    }
}

static void begin(struct seclock_loop *loop)
{
    static const char *const names[LOCKS] = {"report", "backup", "invoice"};
    struct seclock_handle *handle;
    for (int i = 0; i < LOCKS; i++) {
        struct seclock_request request = SECLOCK_REQUEST(.name = names[i], .wait_ms = 5000);
        if (seclock_loop_acquire(loop, &request, &handle) != SECLOCK_OK)
            exit(1);
    }
}

static struct event_base *base;

static void on_readable(evutil_socket_t fd, short events, void *loop)
{
    (void)fd, (void)events;
    on_events(loop);
    if (released == LOCKS)
        event_base_loopbreak(base);
}

int main(void)
{
    const char *url = getenv("SECKILL_REDIS_URL");
    const char *const servers[] = {url ? url : "redis://127.0.0.1:6379", NULL};
    struct seclock_options options = SECLOCK_OPTIONS(.servers = servers);
    struct seclock_client *client;
    struct seclock_loop *loop;
    if (seclock_open(&options, &client) != SECLOCK_OK ||
        seclock_loop_open(client, &loop) != SECLOCK_OK) {
        fprintf(stderr, "%s\n", seclock_error());
        return 1;
    }
    begin(loop);
    base = event_base_new();
    struct event *readable =
        event_new(base, seclock_loop_fd(loop), EV_READ | EV_PERSIST, on_readable, loop);
    event_add(readable, NULL);
    event_base_dispatch(base);
    event_free(readable);
    event_base_free(base);
    seclock_loop_close(&loop);
    seclock_close(&client);
    return 0;
}
