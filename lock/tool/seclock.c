/* seclock: runs a command while holding a distributed lock, shows a lock, or breaks one. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/tool/command.h"
#include "lock/tool/options.h"
#include "lock/tool/status.h"

/* ---- running a command ---- */

/* In a thread of the watchdog: only wakes the main thread, which ends the command. */
static void on_lost(struct seclock_handle *handle, void *context)
{
    (void)handle;
    eventfd_write(*(int *)context, 1);
}

/* A seclock around this one may have set the variable for another lock: so a lock without a fence
 * takes it away. */
static void tell_fence(const struct settings *settings, const struct seclock_handle *handle)
{
    char fence[24];
    snprintf(fence, sizeof fence, "%" PRIu64, seclock_fence(handle));
    if (seclock_fence(handle) > 0)
        setenv(settings->fence_env, fence, 1);
    else
        unsetenv(settings->fence_env);
}

/* A command that has ended by itself may still have run without the lock: only the release
 * tells. */
static int run_holding(const struct settings *settings, struct seclock_handle *handle,
                       const struct inbox *inbox, int lost)
{
    assert(settings->command && handle);
    bool lost_before;
    tell_fence(settings, handle);
    int code = run_command(settings, inbox, lost, &lost_before);
    enum seclock_result result = seclock_release(handle);
    if (lost_before || result == SECLOCK_LOST) {
        if (!lost_before)
            say(settings, "%s: the lock was lost while the command ran", settings->name);
        code = EXIT_LOST;
    } else if (result != SECLOCK_OK)
        say(settings, "%s: not given back (%s: %s); it ends with its lease", settings->name,
            seclock_result_name(result), seclock_error());
    else if (settings->verbose)
        say(settings, "%s: released", settings->name);
    return code;
}

/* Finds out about an acquisition that was not answered. */
static enum seclock_result settle(struct seclock_handle *handle)
{
    enum seclock_result result = seclock_renew(handle);
    if (result != SECLOCK_OK)
        seclock_release(handle);
    return result == SECLOCK_OK ? SECLOCK_OK : SECLOCK_UNKNOWN;
}

/* cancel_fd is the descriptor of the signals: Ctrl-C ends the wait for the lock, too. */
static int hold_and_run(const struct settings *settings, struct seclock_client *client,
                        const struct inbox *inbox)
{
    int lost = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct seclock_request request =
        SECLOCK_REQUEST(.name = settings->name, .kind = settings->kind, .mode = settings->mode,
                        .limit = settings->permits, .wait_ms = settings->wait_ms,
                        .lease_ms = settings->lease_ms, .cancel_fd = inbox->signals,
                        .on_lost = on_lost, .context = &lost);
    struct seclock_handle *handle = NULL;
    int64_t began_ns = clock_now_ns();
    enum seclock_result result = seclock_acquire(client, &request, &handle);
    if (result == SECLOCK_UNKNOWN)
        result = settle(handle);
    int code;
    if (result == SECLOCK_OK) {
        if (settings->verbose)
            say(settings, "%s: acquired after %.3f s, fence %" PRIu64, settings->name,
                (double)(clock_now_ns() - began_ns) / 1e9, seclock_fence(handle));
        code = run_holding(settings, handle, inbox, lost);
    } else if (result == SECLOCK_CANCELLED)
        code = -1;
    else
        code = (int)failed(settings, client, result);
    seclock_free(&handle);
    close(lost);
    return code;
}

static void warn(const struct settings *settings, struct seclock_client *client)
{
    char warning[512];
    if (settings->verbose &&
        seclock_check(client, settings->kind, warning, sizeof warning) == SECLOCK_OK &&
        warning[0] != '\0')
        say(settings, "note: %s", warning);
}

/* One request must leave most of the lease, and not let the user wait long. */
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
    struct seclock_options options =
        SECLOCK_OPTIONS(.servers = settings.servers, .prefix = settings.prefix,
                        .lease_ms = settings.lease_ms,
                        .timeout_ms = request_timeout_ms(settings.lease_ms));
    struct inbox inbox = {.signals = -1, .children = -1};
    if (settings.command)
        inbox_open(&inbox);
    struct seclock_client *client = NULL;
    enum seclock_result result = seclock_open(&options, &client);
    if (result != SECLOCK_OK)
        return (int)failed(&settings, NULL, result);
    warn(&settings, client);
    int code = settings.command ? hold_and_run(&settings, client, &inbox)
                                : (int)status_or_break(&settings, client);
    seclock_close(&client);
    return code == -1 ? (int)inbox_die(&inbox) : code;
}
