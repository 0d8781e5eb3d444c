/* seclock: runs a command while holding a distributed lock, shows a lock, or breaks one. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/tool/command.h"
#include "lock/tool/options.h"

/* ---- failures ---- */

/* The codes are those of sysexits.h, so that cron jobs and scripts can tell a busy lock from a
 * broken set-up. */
static enum exit_code exit_code_of(enum seclock_result result)
{
    switch (result) {
    case SECLOCK_BUSY:
    case SECLOCK_TIMEOUT:
        return EXIT_BUSY;
    case SECLOCK_LOST:
    case SECLOCK_NOT_OWNER:
        return EXIT_LOST;
    case SECLOCK_CONFIG:
    case SECLOCK_UNSUPPORTED:
    case SECLOCK_DEADLOCK:
        return EXIT_CONFIG;
    default:
        return EXIT_UNAVAILABLE;
    }
}

/* Asks anew, so that the holder may be another by now, or none. */
static void say_holder(const struct settings *settings, struct seclock_client *client)
{
    struct seclock_status status = SECLOCK_STATUS();
    char who[sizeof status.holder] = "somebody else", left[32] = "";
    if (client && !settings->quiet &&
        seclock_status(client, settings->kind, settings->name, &status) == SECLOCK_OK &&
        status.held) {
        if (status.holder_pid > 0)
            snprintf(who, sizeof who, "process %" PRId64 " on %s", status.holder_pid,
                     status.holder_host[0] != '\0' ? status.holder_host : "an unknown host");
        else if (status.holder[0] != '\0')
            snprintf(who, sizeof who, "%s", status.holder);
        if (status.remaining_ms >= 0)
            snprintf(left, sizeof left, " for %.1f s unless renewed",
                     (double)status.remaining_ms / 1000);
    }
    say(settings, "%s: held by %s%s", settings->name, who, left);
}

/* Says why a call failed, and of a lock that is busy for whom and for how long; `client` may be
 * NULL. The exit code for it. */
static enum exit_code failed(const struct settings *settings, struct seclock_client *client,
                             enum seclock_result result)
{
    assert(result != SECLOCK_OK);
    if (result == SECLOCK_BUSY || result == SECLOCK_TIMEOUT)
        say_holder(settings, client);
    else
        say(settings, "%s: %s: %s", settings->name, seclock_result_name(result), seclock_error());
    return exit_code_of(result);
}

/* ---- status and break ---- */

enum { RED_SERVERS_MIN = 3 };

static void print_status(const struct settings *settings, enum seclock_kind kind,
                         const struct seclock_status *status)
{
    printf("name: %s\nkind: %s\nstate: %s\n", settings->name, seclock_kind_name(kind),
           status->held ? "held" : "free");
    if (status->held && status->holder[0] != '\0')
        printf("holder: %s\n", status->holder);
    if (status->held && status->holder_pid > 0)
        printf("process: %" PRId64 "\n", status->holder_pid);
    if (status->held && status->holder_host[0] != '\0')
        printf("host: %s\n", status->holder_host);
    if (status->held)
        printf("count: %" PRId64 "\n", status->count);
    if (status->limit > 0)
        printf("limit: %" PRId64 "\n", status->limit);
    if (status->held && kind == SECLOCK_KIND_READ_WRITE)
        printf("mode: %s\n", status->mode == SECLOCK_MODE_READ ? "read" : "write");
    if (status->held && status->remaining_ms >= 0)
        printf("remaining: %.3f s\n", (double)status->remaining_ms / 1000);
    if (status->waiting >= 0)
        printf("waiting: %" PRId64 "\n", status->waiting);
    if (status->fence > 0)
        printf("fence: %" PRIu64 "\n", status->fence);
}

#define KIND_SCHEME(id, name, scheme, what) [SECLOCK_KIND_##id] = scheme,
static const char *const schemes[SECLOCK_KIND_COUNT] = {SECLOCK_KINDS(KIND_SCHEME)};
#undef KIND_SCHEME

static bool kind_is_meant(const struct settings *settings, enum seclock_kind kind)
{
    if (settings->kind_is_said)
        return kind == settings->kind;
    if (kind == SECLOCK_KIND_RED && settings->server_count < RED_SERVERS_MIN)
        return false;
    return strcmp(schemes[kind], schemes[settings->kind]) == 0;
}

/* Finds the next kind, from `kind` on, whose lock of this name is held; SECLOCK_KIND_COUNT: not
 * found. */
static enum seclock_result find_held(const struct settings *settings, struct seclock_client *client,
                                     int *kind, struct seclock_status *status_out)
{
    for (; *kind < SECLOCK_KIND_COUNT; ++*kind) {
        enum seclock_result result = SECLOCK_OK;
        *status_out = SECLOCK_STATUS();
        if (kind_is_meant(settings, (enum seclock_kind) * kind))
            result = seclock_status(client, (enum seclock_kind) * kind, settings->name, status_out);
        if ((result != SECLOCK_OK && result != SECLOCK_UNSUPPORTED) || status_out->held)
            return result;
    }
    return SECLOCK_OK;
}

/* Without a kind, all locks of that name that are held; when none is, the one of the usual kind. */
static enum exit_code show_status(const struct settings *settings, struct seclock_client *client)
{
    struct seclock_status status;
    int kind = 0, shown = 0;
    enum seclock_result result = find_held(settings, client, &kind, &status);
    for (; result == SECLOCK_OK && kind < SECLOCK_KIND_COUNT; shown++) {
        if (!settings->quiet)
            print_status(settings, (enum seclock_kind)kind, &status);
        kind++;
        result = find_held(settings, client, &kind, &status);
    }
    if (result == SECLOCK_OK && shown == 0) {
        status = SECLOCK_STATUS();
        result = seclock_status(client, settings->kind, settings->name, &status);
        if (result == SECLOCK_OK && !settings->quiet)
            print_status(settings, settings->kind, &status);
    }
    if (result != SECLOCK_OK)
        return failed(settings, client, result);
    return shown > 0 ? EXIT_HELD : EXIT_FREE;
}

/* Breaks no lock of a kind that the user has not named, but says which there is. */
static enum exit_code break_lock(const struct settings *settings, struct seclock_client *client)
{
    assert(settings->breaks && !settings->command);
    struct seclock_status status;
    int kind = 0;
    enum seclock_result result = seclock_break(client, settings->kind, settings->name);
    if (result == SECLOCK_OK)
        return EXIT_HELD;
    if (result != SECLOCK_NOT_OWNER)
        return failed(settings, client, result);
    say(settings, "%s: nobody holds it", settings->name);
    if (!settings->kind_is_said && find_held(settings, client, &kind, &status) == SECLOCK_OK &&
        kind < SECLOCK_KIND_COUNT)
        say(settings, "%s: as another kind it is held: see --kind %s", settings->name,
            seclock_kind_name((enum seclock_kind)kind));
    return EXIT_FREE;
}

static enum exit_code status_or_break(const struct settings *settings,
                                      struct seclock_client *client)
{
    return settings->breaks ? break_lock(settings, client) : show_status(settings, client);
}

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
