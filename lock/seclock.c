/* seclock: runs a command while holding a distributed lock, and looks at or breaks one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "lock/seclock_options.h"
#include "lock/seclock_run.h"

/* ---- Looking and breaking ---- */

static enum exit_code exit_code_of(enum lock_result result)
{
    switch (result) {
    case LOCK_BUSY:
    case LOCK_TIMEOUT:
        return EXIT_BUSY;
    case LOCK_LOST:
    case LOCK_NOT_OWNER:
        return EXIT_LOST;
    case LOCK_CONFIG:
    case LOCK_UNSUPPORTED:
    case LOCK_DEADLOCK:
        return EXIT_CONFIG;
    default:
        return EXIT_UNAVAILABLE;
    }
}

static enum exit_code failed(const struct settings *settings, enum lock_result result)
{
    if (result == LOCK_BUSY || result == LOCK_TIMEOUT)
        say(settings, "%s: held by somebody else", settings->name);
    else
        say(settings, "%s: %s: %s", settings->name, lock_result_name(result), lock_error());
    return exit_code_of(result);
}

static void print_status(const struct settings *settings, const struct lock_status *status)
{
    printf("name: %s\nkind: %s\nstate: %s\n", settings->name, lock_kind_name(settings->kind),
           status->held ? "held" : "free");
    if (status->held && status->holder[0] != '\0')
        printf("holder: %s\n", status->holder);
    if (status->held)
        printf("count: %" PRId64 "\n", status->count);
    if (status->limit > 0)
        printf("limit: %" PRId64 "\n", status->limit);
    if (status->held && settings->kind == LOCK_KIND_READ_WRITE)
        printf("mode: %s\n", status->mode == LOCK_MODE_READ ? "read" : "write");
    if (status->held && status->remaining_ms >= 0)
        printf("remaining: %.3f s\n", (double)status->remaining_ms / 1000);
    if (status->waiting >= 0)
        printf("waiting: %" PRId64 "\n", status->waiting);
    if (status->fence > 0)
        printf("fence: %" PRIu64 "\n", status->fence);
}

static enum exit_code look_or_break(const struct settings *settings, struct lock_client *client)
{
    struct lock_status status;
    enum lock_result result;
    if (settings->breaks) {
        result = lock_break(client, settings->kind, settings->name);
        if (result == LOCK_NOT_OWNER)
            say(settings, "%s: nobody holds it", settings->name);
        if (result == LOCK_OK || result == LOCK_NOT_OWNER)
            return result == LOCK_OK ? EXIT_HELD : EXIT_FREE;
        return failed(settings, result);
    }
    result = lock_status(client, settings->kind, settings->name, &status);
    if (result != LOCK_OK)
        return failed(settings, result);
    if (!settings->quiet)
        print_status(settings, &status);
    return status.held ? EXIT_HELD : EXIT_FREE;
}

/* ---- Running a command ---- */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void on_lost(struct lock_handle *handle, void *context)
{
    (void)handle;
    eventfd_write(*(int *)context, 1);
}

/* The command may be what sets this variable for commands of its own, so it is set or taken
 * away. */
static void tell_fence(const struct settings *settings, const struct lock_handle *handle)
{
    char fence[24];
    snprintf(fence, sizeof fence, "%" PRIu64, lock_fence(handle));
    if (lock_fence(handle) > 0)
        setenv(settings->fence_env, fence, 1);
    else
        unsetenv(settings->fence_env);
}

static int run_holding(const struct settings *settings, struct lock_handle *handle,
                       const struct inbox *inbox, int lost)
{
    bool told;
    tell_fence(settings, handle);
    int code = run_command(settings, inbox, lost, &told);
    enum lock_result result = lock_release(handle);
    if (told || result == LOCK_LOST) {
        if (!told)
            say(settings, "%s: the lock was lost while the command ran", settings->name);
        code = EXIT_LOST;
    } else if (result != LOCK_OK)
        say(settings, "%s: not given back (%s: %s); it ends with its lease", settings->name,
            lock_result_name(result), lock_error());
    else if (settings->verbose)
        say(settings, "%s: released", settings->name);
    return code;
}

/* An acquisition that was not answered is asked about once more. */
static enum lock_result settle(struct lock_handle *handle)
{
    enum lock_result result = lock_renew(handle);
    if (result != LOCK_OK)
        lock_release(handle);
    return result == LOCK_OK ? LOCK_OK : LOCK_UNKNOWN;
}

static int hold_and_run(const struct settings *settings, struct lock_client *client,
                        const struct inbox *inbox)
{
    int lost = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct lock_request request = {
        .name = settings->name,
        .kind = settings->kind,
        .mode = settings->mode,
        .limit = settings->permits,
        .wait_ms = settings->wait_ms,
        .lease_ms = settings->lease_ms,
        .cancel_fd = inbox->signals,
        .on_lost = on_lost,
        .context = &lost,
    };
    struct lock_handle *handle = NULL;
    int64_t began_ns = now_ns();
    enum lock_result result = lock_acquire(client, &request, &handle);
    if (result == LOCK_UNKNOWN)
        result = settle(handle);
    int code;
    if (result == LOCK_OK) {
        if (settings->verbose)
            say(settings, "%s: acquired after %.3f s, fence %" PRIu64, settings->name,
                (double)(now_ns() - began_ns) / 1e9, lock_fence(handle));
        code = run_holding(settings, handle, inbox, lost);
    } else if (result == LOCK_CANCELLED)
        code = -1;
    else
        code = (int)failed(settings, result);
    lock_free(&handle);
    close(lost);
    return code;
}

static void warn(const struct settings *settings, struct lock_client *client)
{
    char warning[512];
    if (settings->verbose &&
        lock_check(client, settings->kind, warning, sizeof warning) == LOCK_OK &&
        warning[0] != '\0')
        say(settings, "note: %s", warning);
}

/* One request must not use up the lease, nor the user's patience. */
static int request_timeout_ms(int lease_ms)
{
    int fifth_ms = lease_ms / 5;
    return fifth_ms < 1000 ? fifth_ms : 1000;
}

int main(int argc, char **argv)
{
    struct settings settings;
    run_note_inherited();
    settings_read(&settings, argc, argv);
    struct lock_options options = {
        .servers = settings.servers,
        .prefix = settings.prefix,
        .lease_ms = settings.lease_ms,
        .timeout_ms = request_timeout_ms(settings.lease_ms),
    };
    struct inbox inbox = {.signals = -1, .children = -1};
    if (settings.command)
        inbox_open(&inbox);
    struct lock_client *client = NULL;
    enum lock_result result = lock_open(&options, &client);
    if (result != LOCK_OK)
        return (int)failed(&settings, result);
    warn(&settings, client);
    int code = settings.command ? hold_and_run(&settings, client, &inbox)
                                : (int)look_or_break(&settings, client);
    lock_close(&client);
    return code == -1 ? (int)inbox_die(&inbox) : code;
}
