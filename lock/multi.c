/* Acquires all of several locks or none, in one global order: the multi lock. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/client.h"
#include "lock/process.h"
#include "lock/text.h"

/* why_one_order: two callers that each wait for a lock of the other would wait for ever. Nobody
 * does if all callers acquire in the same order: by kind, then name with its prefix. The server
 * comes last, for locks of one name on several: its URL may be written in several ways. */
struct step {
    struct seclock_client *client;
    struct seclock_request request; /* the caller's, as far as this release knows it */
    const char *server, *prefix;
    size_t index; /* in the caller's order */
};

static int compare_steps(const void *left, const void *right)
{
    const struct step *a = left, *b = right;
    int order = (a->request.kind > b->request.kind) - (a->request.kind < b->request.kind);
    if (order == 0)
        order = strcmp(a->request.name, b->request.name);
    if (order == 0)
        order = strcmp(a->prefix, b->prefix);
    return order ? order : strcmp(a->server, b->server);
}

static enum seclock_result step_fill(const struct seclock_multi *multi, size_t index,
                                     struct step *step_out)
{
    assert(index < multi->count);
    struct seclock_client *client = multi->clients ? multi->clients[index] : multi->client;
    const struct lock_core *core = client_core(client);
    struct seclock_request *request = &step_out->request;
    const char *server = NULL;
    if (!lock_sized_read(request, sizeof *request, LOCK_REQUEST_SIZE_MIN, multi->requests[index]) ||
        lock_name_check(request->name) != SECLOCK_OK)
        return SECLOCK_CONFIG;
    if (core && (unsigned)request->kind < SECLOCK_KIND_COUNT)
        server = core_server(core, request->kind, 0);
    if (!server)
        return lock_fail(SECLOCK_CONFIG, "no server for a member of the multi lock");
    request->size = sizeof *request;
    request->cancel_fd = multi->cancel_fd;
    step_out->client = client;
    step_out->server = server;
    step_out->prefix = core->options.prefix;
    step_out->index = index;
    return SECLOCK_OK;
}

/* Refuses a lock that is named twice, because it would wait for itself in every order. */
static enum seclock_result steps_fill(const struct seclock_multi *multi, struct step *steps_out)
{
    size_t count = multi->count;
    enum seclock_result result = SECLOCK_OK;
    for (size_t i = 0; i < count && result == SECLOCK_OK; i++)
        result = step_fill(multi, i, &steps_out[i]);
    if (result != SECLOCK_OK)
        return result;
    qsort(steps_out, count, sizeof *steps_out, compare_steps);
    for (size_t i = 1; i < count; i++)
        if (compare_steps(&steps_out[i - 1], &steps_out[i]) == 0)
            return lock_fail(SECLOCK_CONFIG, "named twice: %s", steps_out[i].request.name);
    return SECLOCK_OK;
}

/* While the call waited for the last locks, the first may have been lost. */
static enum seclock_result check_held(struct seclock_handle *const *handles, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert(handles[i]);
        if (seclock_state(handles[i]) != SECLOCK_STATE_HELD)
            return lock_fail(SECLOCK_LOST, "lost while waiting for the others: %s",
                             seclock_name(handles[i]));
    }
    return SECLOCK_OK;
}

/* The deadline holds for all locks together. After the first BUSY all are given back. */
static enum seclock_result acquire_all(struct step *steps, size_t count, int wait_ms,
                                       struct seclock_handle **handles)
{
    int64_t until_ms = clock_now_ms() + wait_ms;
    for (size_t i = 0; i < count; i++) {
        int64_t left_ms = until_ms - clock_now_ms();
        steps[i].request.wait_ms = wait_ms <= 0 ? wait_ms : left_ms > 0 ? (int)left_ms : 0;
        assert(!handles[steps[i].index]);
        enum seclock_result result =
            seclock_acquire(steps[i].client, &steps[i].request, &handles[steps[i].index]);
        if (result == SECLOCK_BUSY && wait_ms > 0)
            result = SECLOCK_TIMEOUT;
        if (result != SECLOCK_OK)
            return result;
    }
    return check_held(handles, count);
}

enum seclock_result seclock_multi_acquire(const struct seclock_multi *multi,
                                          struct seclock_handle **handles_out)
{
    UNCANCELLED;
    struct seclock_multi known;
    if (!lock_sized_read(&known, sizeof known, sizeof known, multi))
        return SECLOCK_CONFIG;
    size_t count = known.count;
    if (count == 0 || count > SECLOCK_MULTI_MAX)
        return lock_fail(SECLOCK_CONFIG, "1 to %d locks", SECLOCK_MULTI_MAX);
    memset(handles_out, 0, count * sizeof *handles_out);
    struct step *steps = calloc(count, sizeof *steps);
    if (!steps)
        return lock_fail(SECLOCK_FAILED, "out of memory");
    enum seclock_result result = steps_fill(&known, steps);
    if (result == SECLOCK_OK) {
        result = acquire_all(steps, count, known.wait_ms, handles_out);
        if (result != SECLOCK_OK) {
            seclock_multi_release(handles_out, count);
            seclock_multi_free(handles_out, count);
        }
    }
    free(steps);
    return result;
}

/* Goes on after an error: a member that cannot be released must not keep the others locked. */
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
