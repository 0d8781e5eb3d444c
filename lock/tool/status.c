/* Shows who holds a lock, and breaks it. */
#include "lock/tool/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RED_SERVERS_MIN = 3 };

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

enum exit_code failed(const struct settings *settings, struct seclock_client *client,
                      enum seclock_result result)
{
    if (result == SECLOCK_BUSY || result == SECLOCK_TIMEOUT)
        say_holder(settings, client);
    else
        say(settings, "%s: %s: %s", settings->name, seclock_result_name(result), seclock_error());
    return exit_code_of(result);
}

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

/* ---- the kinds that the user may have meant ---- */

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

/* The next kind, from `kind` on, of which a lock of the name is held; SECLOCK_KIND_COUNT: none
 * is. */
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

enum exit_code status_or_break(const struct settings *settings, struct seclock_client *client)
{
    return settings->breaks ? break_lock(settings, client) : show_status(settings, client);
}
