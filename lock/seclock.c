/* seclock: runs a command while holding a distributed lock, and looks at or breaks one. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lock/lock.h"

#ifndef SECLOCK_VERSION
#define SECLOCK_VERSION "1.0.0"
#endif

enum {
    SERVERS_MAX = 32,
    DESCRIPTORS_MAX = 1024, /* looked at, of those that are open from the beginning */
};

/* Codes of our own are those of sysexits.h, env(1) and timeout(1); any other is the command's. */
enum exit_code {
    EXIT_HELD = 0,
    EXIT_FREE = 1, /* status, break: nobody holds it */
    EXIT_USAGE = 64,
    EXIT_UNAVAILABLE = 69,
    EXIT_LOST = 74,
    EXIT_BUSY = 75,
    EXIT_CONFIG = 78,
    EXIT_CANNOT_FORK = 125,
    EXIT_CANNOT_RUN = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128,
};

struct settings {
    const char *servers[SERVERS_MAX + 1];
    size_t server_count;
    const char *prefix;
    const char *kind_name;
    const char *fence_env;
    enum lock_kind kind;
    enum lock_mode mode;
    int wait_ms, lease_ms, grace_ms, permits;
    bool quiet, verbose;
    const char *name;
    char **command; /* NULL: status or break */
    bool breaks;
};

/* Signals, as descriptors. */
struct inbox {
    int signals;   /* to be forwarded to the command */
    int children;  /* SIGCHLD */
    sigset_t mask; /* as it was before: the command's */
};

/* The command as it runs. */
struct run {
    const struct settings *settings;
    pid_t pid;
    bool own_group; /* signals go to all of its processes */
    bool lost;
    int64_t kill_at_ns; /* 0: not told to end */
};

static const char usage_text[] =
    "usage: seclock [options] NAME -- COMMAND [ARGUMENT]...\n"
    "       seclock [options] status NAME\n"
    "       seclock [options] break NAME\n"
    "\n"
    "Runs COMMAND while holding the distributed lock NAME.\n"
    "\n"
    "  -s, --server URL      redis://host[:port], mysql://user@host/db or zookeeper://host:port;\n"
    "                        may be repeated; default: $SECLOCK_SERVER, words apart by spaces\n"
    "  -k, --kind KIND       simple, reentrant, timestamp, spin, fair, read-write, semaphore,\n"
    "                        red, table, get-lock, queue; default: simple for one Redis, red for\n"
    "                        several, table for MySQL, queue for ZooKeeper\n"
    "  -p, --permits N       up to N commands at a time (kind semaphore)\n"
    "  -r, --read            as a reader (kind read-write)\n"
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
    "TIME is a number with ms, s, m or h behind it; seconds without.\n"
    "Exit status: COMMAND's own, 128+N if signal N ended it; 64 usage, 69 server unavailable,\n"
    "74 the lock was lost, 75 somebody else holds it, 78 wrong configuration, 125 cannot fork,\n"
    "126 COMMAND cannot be run, 127 COMMAND not found. status: 0 held, 1 free; break: 0 broken,\n"
    "1 nobody held it.\n";

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

__attribute__((format(printf, 2, 3))) static void say(const struct settings *settings,
                                                      const char *format, ...)
{
    va_list args;
    if (settings->quiet)
        return;
    va_start(args, format);
    fputs("seclock: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ---- The command line ---- */

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

/* 10, 1.5, 500ms, 10s, 2m, 1h: as ms. */
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
    if (settings->server_count == SERVERS_MAX)
        usage_error("%s: more servers than can be", url);
    settings->servers[settings->server_count++] = url;
}

static void add_servers_of_environment(struct settings *settings)
{
    const char *value = getenv("SECLOCK_SERVER");
    if (settings->server_count > 0 || !value)
        return;
    char *copy = strdup(value); /* lives as long as the program */
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
        settings->mode = LOCK_MODE_READ;
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
    default: /* getopt has said why */
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

/* NAME -- COMMAND..., status NAME or break NAME. A lock may be called "status", too. */
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

static enum lock_kind kind_by_server(const struct settings *settings)
{
    if (settings->permits > 0)
        return LOCK_KIND_SEMAPHORE;
    if (settings->mode == LOCK_MODE_READ)
        return LOCK_KIND_READ_WRITE;
    if (strncmp(settings->servers[0], "mysql:", 6) == 0)
        return LOCK_KIND_TABLE;
    if (strncmp(settings->servers[0], "zookeeper:", 10) == 0)
        return LOCK_KIND_QUEUE;
    return settings->server_count > 1 ? LOCK_KIND_RED : LOCK_KIND_SIMPLE;
}

static void settle_kind(struct settings *settings)
{
    if (settings->server_count == 0)
        usage_error("%s", "no server: say --server URL or set SECLOCK_SERVER");
    settings->kind = kind_by_server(settings);
    if (settings->kind_name && !lock_kind_find(settings->kind_name, &settings->kind))
        usage_error("%s: no such kind of lock", settings->kind_name);
    if (settings->kind == LOCK_KIND_LATCH || settings->kind == LOCK_KIND_PERMIT)
        usage_error("%s: not a kind that a command can hold", settings->kind_name);
    if (settings->permits > 0 && settings->kind != LOCK_KIND_SEMAPHORE)
        usage_error("%s: --permits is for semaphores", lock_kind_name(settings->kind));
    if (settings->mode == LOCK_MODE_READ && settings->kind != LOCK_KIND_READ_WRITE)
        usage_error("%s: --read is for read-write locks", lock_kind_name(settings->kind));
    if (settings->lease_ms < 100 || settings->lease_ms > LOCK_LEASE_MS_MAX)
        usage_error("%s", "--lease: from 100ms to 24h");
    if (settings->fence_env[0] == '\0' || strchr(settings->fence_env, '='))
        usage_error("%s: not the name of a variable", settings->fence_env);
}

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

/* ---- Signals ---- */

static const int forwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/* Blocks the signals to be forwarded, but for those that whoever started us wants ignored, before
 * any thread is there. They are then read from a descriptor, which also ends the waiting. */
static int block_signals(sigset_t *before_out)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++) {
        struct sigaction action;
        sigaction(forwarded[i], NULL, &action);
        if (action.sa_handler != SIG_IGN)
            sigaddset(&set, forwarded[i]);
    }
    sigprocmask(SIG_BLOCK, &set, before_out);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Also before there are threads: one that does not block it would take it and forget it. */
static int block_child_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    signal(SIGCHLD, SIG_DFL); /* were it ignored, the command's status would be lost */
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Ends as the signal that came while waiting would have. */
static enum exit_code die_of_signal(int signals)
{
    struct signalfd_siginfo info = {0};
    if (read(signals, &info, sizeof info) != (ssize_t)sizeof info)
        return EXIT_UNAVAILABLE;
    sigset_t set;
    int number = (int)info.ssi_signo;
    sigemptyset(&set);
    sigaddset(&set, number);
    signal(number, SIG_DFL);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return EXIT_SIGNAL + number;
}

static void signal_command(const struct run *run, int number)
{
    kill(run->own_group ? -run->pid : run->pid, number);
}

/* A key typed at the terminal has reached the command already if it shares our process group. */
static void forward_signals(const struct run *run, int signals)
{
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (run->own_group || info.ssi_code != SI_KERNEL)
            signal_command(run, (int)info.ssi_signo);
}

/* ---- descriptors: the command gets those that we got, and none of our connections ---- */

static bool inherited[DESCRIPTORS_MAX];

static void note_inherited(void)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        inherited[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void close_our_own(int but)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        if (!inherited[fd] && fd != but)
            close(fd);
}

/* ---- Running the command ---- */

/* In the child. When we are killed, nobody renews the lock: the command is told to end. */
static _Noreturn void become_command(const struct run *run, const sigset_t *mask, pid_t parent,
                                     int report)
{
    if (run->own_group)
        setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_SIGNAL + SIGTERM);
    sigprocmask(SIG_SETMASK, mask, NULL);
    close_our_own(report);
    fcntl(report, F_SETFD, FD_CLOEXEC); /* its closing says that the command runs */
    execvp(run->settings->command[0], run->settings->command);
    int error = errno;
    if (write(report, &error, sizeof error) < 0)
        _exit(EXIT_CANNOT_RUN);
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

/* 0, or the exit code. Returns once the command runs, or cannot. */
static int start_command(struct run *run, const sigset_t *mask)
{
    int report[2], error = 0;
    pid_t parent = getpid();
    const char *command = run->settings->command[0];
    if (pipe(report) != 0 || (run->pid = fork()) < 0) {
        say(run->settings, "%s: %s", command, strerror(errno));
        return EXIT_CANNOT_FORK;
    }
    if (run->pid == 0) {
        close(report[0]);
        become_command(run, mask, parent, report[1]);
    }
    close(report[1]);
    bool broken = read(report[0], &error, sizeof error) == (ssize_t)sizeof error;
    close(report[0]);
    if (!broken)
        return 0;
    waitpid(run->pid, NULL, 0);
    say(run->settings, "%s: %s", command, strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static void tell_lost(struct run *run)
{
    if (run->lost)
        return;
    run->lost = true;
    run->kill_at_ns = now_ns() + (int64_t)run->settings->grace_ms * 1000000;
    say(run->settings, "%s: the lock is lost; ending %s", run->settings->name,
        run->settings->command[0]);
    signal_command(run, SIGTERM);
    signal_command(run, SIGCONT); /* a stopped one would not hear */
}

/* How long poll may sleep; kills a command that has used up its grace. */
static int grace_left_ms(struct run *run)
{
    if (run->kill_at_ns == 0)
        return -1;
    int64_t left_ms = (run->kill_at_ns - now_ns() + 999999) / 1000000;
    if (left_ms > 0)
        return (int)left_ms;
    say(run->settings, "%s: killing %s", run->settings->name, run->settings->command[0]);
    signal_command(run, SIGKILL);
    run->kill_at_ns = 0;
    return -1;
}

/* Until the command has ended: its wait status. */
static int attend_command(struct run *run, const struct inbox *inbox, int lost)
{
    int status = 0;
    struct signalfd_siginfo info;
    struct pollfd fds[] = {
        {.fd = inbox->signals, .events = POLLIN},
        {.fd = inbox->children, .events = POLLIN},
        {.fd = lost, .events = POLLIN},
    };
    while (waitpid(run->pid, &status, WNOHANG) == 0) {
        poll(fds, 3, grace_left_ms(run));
        if (fds[0].revents)
            forward_signals(run, inbox->signals);
        if (fds[1].revents && read(inbox->children, &info, sizeof info) < 0 && errno != EAGAIN)
            break;
        if (fds[2].revents) {
            tell_lost(run);
            fds[2].fd = -1;
            fds[2].revents = 0;
        }
    }
    return status;
}

static int exit_code_of_command(int status)
{
    return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
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
    struct run run = {.settings = settings, .own_group = !isatty(STDIN_FILENO)};
    tell_fence(settings, handle);
    int code = start_command(&run, &inbox->mask);
    if (code == 0)
        code = exit_code_of_command(attend_command(&run, inbox, lost));
    enum lock_result result = lock_release(handle);
    if (run.lost || result == LOCK_LOST) {
        if (!run.lost)
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
    struct settings settings = {
        .wait_ms = LOCK_FOREVER,
        .lease_ms = 30000,
        .grace_ms = 5000,
        .fence_env = "SECLOCK_FENCE",
    };
    note_inherited();
    parse_options(&settings, argc, argv);
    parse_operands(&settings, argc - optind, argv + optind);
    add_servers_of_environment(&settings);
    settle_kind(&settings);
    struct lock_options options = {
        .servers = settings.servers,
        .prefix = settings.prefix,
        .lease_ms = settings.lease_ms,
        .timeout_ms = request_timeout_ms(settings.lease_ms),
    };
    struct inbox inbox = {.signals = -1, .children = -1};
    if (settings.command) {
        inbox.signals = block_signals(&inbox.mask);
        inbox.children = block_child_signal();
    }
    struct lock_client *client = NULL;
    enum lock_result result = lock_open(&options, &client);
    if (result != LOCK_OK)
        return (int)failed(&settings, result);
    warn(&settings, client);
    int code = settings.command ? hold_and_run(&settings, client, &inbox)
                                : (int)look_or_break(&settings, client);
    lock_close(&client);
    return code == -1 ? (int)die_of_signal(inbox.signals) : code;
}
