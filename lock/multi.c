/* The multi lock: all of several locks or none, taken in one global order. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lock/lock_core.h"

/* The order in which a lock is taken, the same for all callers: by server, kind, name. */
struct turn {
    const struct seclock_member *member;
    const char *server;
    size_t place; /* in the caller's order */
};

static int compare(const void *left, const void *right)
{
    const struct turn *a = left, *b = right;
    int order = strcmp(a->server, b->server);
    if (order == 0)
        order = (a->member->request->kind > b->member->request->kind) -
                (a->member->request->kind < b->member->request->kind);
    return order ? order : strcmp(a->member->request->name, b->member->request->name);
}

static enum seclock_result turns_fill(const struct seclock_member *members, size_t count,
                                      struct turn *turns)
{
    for (size_t i = 0; i < count; i++) {
        const struct lock_context *context = NULL;
        if ((unsigned)members[i].request->kind < SECLOCK_KIND_COUNT)
            context = lock_client_context(members[i].client, members[i].request->kind);
        if (lock_name_check(members[i].request->name) != SECLOCK_OK)
            return SECLOCK_CONFIG;
        if (!context || !context->server) {
            lock_set_error("no server for a member of the multi lock");
            return SECLOCK_CONFIG;
        }
        turns[i] = (struct turn){&members[i], context->server, i};
    }
    qsort(turns, count, sizeof *turns, compare);
    for (size_t i = 1; i < count; i++)
        if (compare(&turns[i - 1], &turns[i]) == 0) {
            lock_set_error("named twice: %s", turns[i].member->request->name);
            return SECLOCK_CONFIG;
        }
    return SECLOCK_OK;
}

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static enum seclock_result take_all(const struct turn *turns, size_t count, int wait_ms,
                                    struct seclock_handle **handles)
{
    int64_t until_ms = clock_ms() + wait_ms;
    for (size_t i = 0; i < count; i++) {
        struct seclock_request request = *turns[i].member->request;
        request.wait_ms = wait_ms;
        if (wait_ms > 0) {
            int64_t left_ms = until_ms - clock_ms();
            request.wait_ms = left_ms > 0 ? (int)left_ms : 0;
        }
        enum seclock_result result =
            seclock_acquire(turns[i].member->client, &request, &handles[turns[i].place]);
        if (result == SECLOCK_BUSY && wait_ms > 0)
            result = SECLOCK_TIMEOUT;
        if (result != SECLOCK_OK)
            return result;
    }
    /* While the last were waited for, the first may have been lost. */
    for (size_t i = 0; i < count; i++)
        if (seclock_state(handles[i]) != SECLOCK_STATE_HELD) {
            lock_set_error("lost while waiting for the others: %s", seclock_name(handles[i]));
            return SECLOCK_LOST;
        }
    return SECLOCK_OK;
}

enum seclock_result seclock_multi_acquire(const struct seclock_member *members, size_t count,
                                          int wait_ms, struct seclock_handle **handles_out)
{
    memset(handles_out, 0, count * sizeof *handles_out);
    if (count == 0 || count > SECLOCK_MULTI_MAX) {
        lock_set_error("1 to %d locks", SECLOCK_MULTI_MAX);
        return SECLOCK_CONFIG;
    }
    struct turn *turns = calloc(count, sizeof *turns);
    if (!turns) {
        lock_set_error("out of memory");
        return SECLOCK_FAILED;
    }
    enum seclock_result result = turns_fill(members, count, turns);
    if (result == SECLOCK_OK) {
        result = take_all(turns, count, wait_ms, handles_out);
        if (result != SECLOCK_OK) {
            seclock_multi_release(handles_out, count);
            seclock_multi_free(handles_out, count);
        }
    }
    free(turns);
    return result;
}

enum seclock_result seclock_multi_release(struct seclock_handle *const *handles, size_t count)
{
    enum seclock_result first = SECLOCK_OK;
    for (size_t i = 0; i < count; i++) {
        enum seclock_result result = handles[i] ? seclock_release(handles[i]) : SECLOCK_OK;
        if (first == SECLOCK_OK)
            first = result;
    }
    return first;
}

void seclock_multi_free(struct seclock_handle **handles, size_t count)
{
    for (size_t i = 0; i < count; i++)
        seclock_free(&handles[i]);
}
