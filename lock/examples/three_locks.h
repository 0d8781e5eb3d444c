/* What the examples of event loops share: three locks taken at once on one thread. What each guards
 * is done when its event comes. Each program differs only in how it waits for the descriptor. */
#ifndef LOCK_EXAMPLES_THREE_LOCKS_H
#define LOCK_EXAMPLES_THREE_LOCKS_H

#include <stdio.h>
#include <stdlib.h>

#include <seclock.h>

enum { LOCKS = 3 };

static struct seclock_client *locks_client;
static int locks_released; /* the program ends when all are */

/* Takes every event; call it when the loop's descriptor is readable. */
static inline void locks_on_events(struct seclock_loop *loop)
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
        locks_released++;
    }
}

/* Opens a loop and asks it for the locks. */
static inline struct seclock_loop *locks_begin(void)
{
    static const char *const names[LOCKS] = {"report", "backup", "invoice"};
    const char *url = getenv("SECKILL_REDIS_URL");
    const char *const servers[] = {url ? url : "redis://127.0.0.1:6379", NULL};
    struct seclock_options options = SECLOCK_OPTIONS(.servers = servers);
    struct seclock_loop *loop;
    struct seclock_handle *handle;
    if (seclock_open(&options, &locks_client) != SECLOCK_OK ||
        seclock_loop_open(locks_client, &loop) != SECLOCK_OK) {
        fprintf(stderr, "%s\n", seclock_error());
        exit(1);
    }
    for (int i = 0; i < LOCKS; i++) {
        struct seclock_request request = SECLOCK_REQUEST(.name = names[i], .wait_ms = 5000);
        if (seclock_loop_acquire(loop, &request, &handle) != SECLOCK_OK)
            exit(1);
    }
    return loop;
}

static inline void locks_end(struct seclock_loop *loop)
{
    seclock_loop_close(&loop);
    seclock_close(&locks_client);
}

#endif
