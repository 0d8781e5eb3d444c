/* seclock: runs a command while holding a distributed lock, shows a lock, or breaks one. */
#include <assert.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/tool/command.h"

/* ---- the command line ---- */

#ifndef SECLOCK_VERSION
#define SECLOCK_VERSION "1.0.0"
#endif

static const char usage_text[] =
    "usage: seclock [options] NAME -- COMMAND [ARGUMENT]...\n"
    "       seclock [options] status NAME\n"
    "       seclock [options] break NAME\n"
    "\n"
    "Runs COMMAND while holding the distributed lock NAME.\n"
    "\n"
    "  -s, --server URL      redis://host[:port], mysql://user@host/db, zookeeper://host:port or\n"
    "                        etcd://host[:port]; may be repeated; default: $SECLOCK_SERVER,\n"
    "                        separated by spaces\n"
    "  -k, --kind KIND       simple, reentrant, timestamp, spin, fair, read-write, semaphore,\n"
    "                        red, table, get-lock, queue, etcd; default: simple for one Redis,\n"
    "                        red for several, table for MySQL, queue for ZooKeeper, etcd for etcd\n"
    "  -p, --permits N       up to N commands at a time (kind semaphore)\n"
    "  -r, --read            as a reader (kind read-write or etcd)\n"
    "  -w, --wait TIME       how long to wait for the lock; default: for ever\n"
    "  -n, --nowait          the same as --wait 0\n"
    "  -l, --lease TIME      how long the lock outlives a holder that dies; default: 30s\n"
    "  -g, --grace TIME      between SIGTERM and SIGKILL when the lock is lost; default: 5s\n"
    "  -e, --fence-env NAME  variable that tells COMMAND its fence; default: SECLOCK_FENCE\n"
    "  -P, --prefix TEXT     of every key on the server\n"
    "  -q, --quiet           no messages, only exit codes\n"
    "  -v, --verbose         say when the lock is taken and given back\n"
    "  -h, --help            this text\n"
    "  -V, --version\n"
    "\n"
    "TIME is a number and a unit: ms, s, m or h; without a unit, seconds.\n"
    "Exit status: COMMAND's own, 128+N if signal N ended it; 64 usage, 69 server unavailable,\n"
    "74 the lock was lost, 75 somebody else holds it, 78 wrong configuration, 125 cannot fork,\n"
    "126 COMMAND cannot be run, 127 COMMAND not found. status: 0 held, 1 free; break: 0 broken,\n"
    "1 nobody held it.\n";

__attribute__((format(printf, 1, 2))) static _Noreturn void usage_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("seclock: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\nTry 'seclock --help'.\n", stderr);
    exit(EXIT_USAGE);
}

/* Returns 10, 1.5, 500ms, 10s, 2m or 1h in ms. */
static int parse_time(const char *option, const char *text)
{
    static const struct {
        const char *suffix;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}};
    char *end = NULL;
    double number = strtod(text, &end);
    bool digits = text[0] == '.' || (text[0] >= '0' && text[0] <= '9');
    for (size_t i = 0; digits && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].suffix) == 0 && number * units[i].ms <= 2e9)
            return (int)(number * units[i].ms + 0.5);
    usage_error("%s: not a time like 500ms, 10s or 1.5", option);
}

static int parse_count(const char *option, const char *text)
{
    char *end = NULL;
    long number = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number < 1 || number > 1000000)
        usage_error("%s: not a number from 1 to 1000000", option);
    return (int)number;
}

static void add_server(struct settings *settings, const char *url)
{
    assert(url);
    if (settings->server_count == SERVERS_MAX)
        usage_error("%s: more servers than can be", url);
    settings->servers[settings->server_count++] = url;
}

static void add_servers_of_environment(struct settings *settings)
{
    const char *value = getenv("SECLOCK_SERVER");
    if (settings->server_count > 0 || !value)
        return;
    static char *copy; /* lives as long as the program */
    copy = strdup(value);
    for (char *url = copy ? strtok(copy, " ") : NULL; url; url = strtok(NULL, " "))
        add_server(settings, url);
}

static void take_option(struct settings *settings, int option, const char *value)
{
    switch (option) {
    case 's':
        add_server(settings, value);
        break;
    case 'k':
        settings->kind_name = value;
        break;
    case 'p':
        settings->permits = parse_count("--permits", value);
        break;
    case 'r':
        settings->mode = SECLOCK_MODE_READ;
        break;
    case 'w':
        settings->wait_ms = parse_time("--wait", value);
        break;
    case 'n':
        settings->wait_ms = 0;
        break;
    case 'l':
        settings->lease_ms = parse_time("--lease", value);
        break;
    case 'g':
        settings->grace_ms = parse_time("--grace", value);
        break;
    case 'e':
        settings->fence_env = value;
        break;
    case 'P':
        settings->prefix = value;
        break;
    case 'q':
        settings->quiet = true;
        break;
    case 'v':
        settings->verbose = true;
        break;
    case 'h':
        fputs(usage_text, stdout);
        exit(0);
    case 'V':
        puts("seclock " SECLOCK_VERSION);
        exit(0);
    default: /* getopt has printed the reason */
        fputs("Try 'seclock --help'.\n", stderr);
        exit(EXIT_USAGE);
    }
}

static void parse_options(struct settings *settings, int argc, char **argv)
{
    static const struct option options[] = {
        {"server", required_argument, NULL, 's'},
        {"kind", required_argument, NULL, 'k'},
        {"permits", required_argument, NULL, 'p'},
        {"read", no_argument, NULL, 'r'},
        {"wait", required_argument, NULL, 'w'},
        {"nowait", no_argument, NULL, 'n'},
        {"lease", required_argument, NULL, 'l'},
        {"grace", required_argument, NULL, 'g'},
        {"fence-env", required_argument, NULL, 'e'},
        {"prefix", required_argument, NULL, 'P'},
        {"quiet", no_argument, NULL, 'q'},
        {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "+s:k:p:rw:nl:g:e:P:qvhV", options, NULL)) != -1)
        take_option(settings, option, optarg);
}

/* Parses NAME -- COMMAND..., status NAME or break NAME. A lock may have the name "status", too. */
static void parse_operands(struct settings *settings, int count, char **operands)
{
    if (count >= 2 && strcmp(operands[1], "--") == 0) {
        settings->name = operands[0];
        settings->command = operands + 2;
        if (count < 3)
            usage_error("%s", "no command after --");
        return;
    }
    settings->breaks = count > 0 && strcmp(operands[0], "break") == 0;
    if (count != 2 || (!settings->breaks && strcmp(operands[0], "status") != 0))
        usage_error("%s", count == 0 ? "no lock is named" : "NAME -- COMMAND is expected");
    settings->name = operands[1];
}

/* Returns the safest kind that needs no further options: several Redis servers mean a majority. */
static enum seclock_kind kind_by_server(const struct settings *settings)
{
    assert(settings->server_count > 0);
    if (settings->permits > 0)
        return SECLOCK_KIND_SEMAPHORE;
    if (strncasecmp(settings->servers[0], "etcd", 4) == 0) /* or etcds */
        return SECLOCK_KIND_ETCD;
    if (settings->mode == SECLOCK_MODE_READ)
        return SECLOCK_KIND_READ_WRITE;
    if (strncasecmp(settings->servers[0], "mysql", 5) == 0) /* or mysqls */
        return SECLOCK_KIND_TABLE;
    if (strncasecmp(settings->servers[0], "zookeeper", 9) == 0)
        return SECLOCK_KIND_QUEUE;
    return settings->server_count > 1 ? SECLOCK_KIND_RED : SECLOCK_KIND_SIMPLE;
}

/* Checks options that depend on each other, once all of them are known. */
static void settle_kind(struct settings *settings)
{
    if (settings->server_count == 0)
        usage_error("%s", "no server: say --server URL or set SECLOCK_SERVER");
    settings->kind = kind_by_server(settings);
    if (settings->kind_name && !seclock_kind_find(settings->kind_name, &settings->kind))
        usage_error("%s: no such kind of lock", settings->kind_name);
    settings->kind_is_said =
        settings->kind_name || settings->permits > 0 || settings->mode == SECLOCK_MODE_READ;
    if (settings->command &&
        (settings->kind == SECLOCK_KIND_LATCH || settings->kind == SECLOCK_KIND_PERMIT))
        usage_error("%s: not a kind that a command can hold", settings->kind_name);
    if (settings->permits > 0 && settings->kind != SECLOCK_KIND_SEMAPHORE)
        usage_error("%s: --permits is for semaphores", seclock_kind_name(settings->kind));
    if (settings->mode == SECLOCK_MODE_READ && settings->kind != SECLOCK_KIND_READ_WRITE)
        usage_error("%s: --read is for read-write locks", seclock_kind_name(settings->kind));
    if (settings->lease_ms < 100 || settings->lease_ms > SECLOCK_LEASE_MS_MAX)
        usage_error("%s", "--lease: from 100ms to 24h");
    if (settings->fence_env[0] == '\0' || strchr(settings->fence_env, '='))
        usage_error("%s: not the name of a variable", settings->fence_env);
}

/* Takes the servers from the environment if the command line names none. A mistake ends the program
 * with EXIT_USAGE; --help and --version end it with success. */
static void settings_read(struct settings *settings_out, int argc, char **argv)
{
    *settings_out = (struct settings){
        .wait_ms = SECLOCK_FOREVER,
        .lease_ms = 30000,
        .grace_ms = 5000,
        .fence_env = "SECLOCK_FENCE",
    };
    parse_options(settings_out, argc, argv);
    parse_operands(settings_out, argc - optind, argv + optind);
    add_servers_of_environment(settings_out);
    settle_kind(settings_out);
}

/* ---- failures ---- */

/* Uses the codes of sysexits.h, by which scripts tell a busy lock from a broken set-up. */
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

/* Says who holds the lock now, which may be another holder by now, or nobody. */
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

/* Says why a call failed, and for a busy lock who holds it and for how long; `client` may be NULL.
 * Returns the exit code. */
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

/* Prints what the holder has proclaimed, if that is a leader. Bytes that a terminal may obey become
 * '?'. */
static void print_value(const struct settings *settings, struct seclock_client *client,
                        enum seclock_kind kind, const char *holder)
{
    struct seclock_leader leader = SECLOCK_LEADER();
    if (seclock_leader(client, kind, settings->name, &leader) != SECLOCK_OK || !leader.led ||
        strcmp(leader.holder, holder) != 0)
        return;
    for (char *at = leader.value; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    printf("proclaims: %s\n", leader.value);
}

static void print_status(const struct settings *settings, struct seclock_client *client,
                         enum seclock_kind kind, const struct seclock_status *status)
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
    if (status->held)
        print_value(settings, client, kind, status->holder);
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

/* Finds the next kind, from `kind` on, with a held lock of this name, or SECLOCK_KIND_COUNT. */
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

/* Shows, without a kind, all held locks of that name; without any, the usual kind's. */
static enum exit_code show_status(const struct settings *settings, struct seclock_client *client)
{
    struct seclock_status status;
    int kind = 0, shown = 0;
    enum seclock_result result = find_held(settings, client, &kind, &status);
    for (; result == SECLOCK_OK && kind < SECLOCK_KIND_COUNT; shown++) {
        if (!settings->quiet)
            print_status(settings, client, (enum seclock_kind)kind, &status);
        kind++;
        result = find_held(settings, client, &kind, &status);
    }
    if (result == SECLOCK_OK && shown == 0) {
        status = SECLOCK_STATUS();
        result = seclock_status(client, settings->kind, settings->name, &status);
        if (result == SECLOCK_OK && !settings->quiet)
            print_status(settings, client, settings->kind, &status);
    }
    if (result != SECLOCK_OK)
        return failed(settings, client, result);
    return shown > 0 ? EXIT_HELD : EXIT_FREE;
}

/* Breaks no lock of a kind that the user has not named, but says which locks there are. */
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

/* ---- running a command ---- */

/* In a thread of the watchdog: only wakes the main thread, which ends the command. */
static void on_lost(struct seclock_handle *handle, void *context)
{
    (void)handle;
    eventfd_write(*(int *)context, 1);
}

/* Unsets the variable for a lock without a fence, as an outer seclock may have set it. */
static void tell_fence(const struct settings *settings, const struct seclock_handle *handle)
{
    char fence[24];
    snprintf(fence, sizeof fence, "%" PRIu64, seclock_fence(handle));
    if (seclock_fence(handle) > 0)
        setenv(settings->fence_env, fence, 1);
    else
        unsetenv(settings->fence_env);
}

/* Only the release tells whether a command that ended by itself has run without the lock. */
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

int main(int argc, char **argv)
{
    struct settings settings;
    run_note_inherited();
    settings_read(&settings, argc, argv);
    /* One request must leave most of the lease, and must not let the user wait long. */
    int fifth_ms = settings.lease_ms / 5;
    struct seclock_options options =
        SECLOCK_OPTIONS(.servers = settings.servers, .prefix = settings.prefix,
                        .lease_ms = settings.lease_ms,
                        .timeout_ms = fifth_ms < 1000 ? fifth_ms : 1000);
    struct inbox inbox = {.signals = -1};
    if (settings.command)
        inbox_open(&inbox);
    struct seclock_client *client = NULL;
    enum seclock_result result = seclock_open(&options, &client);
    if (result != SECLOCK_OK)
        return (int)failed(&settings, NULL, result);
    warn(&settings, client);
    int code;
    if (settings.command)
        code = hold_and_run(&settings, client, &inbox);
    else
        code = (int)(settings.breaks ? break_lock : show_status)(&settings, client);
    seclock_close(&client);
    return code == -1 ? (int)inbox_die(&inbox) : code;
}
