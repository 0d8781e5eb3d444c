/* The command line of seclock. */
#include "lock/tool/options.h"

#include <assert.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    "  -s, --server URL      redis://host[:port], mysql://user@host/db or zookeeper://host:port;\n"
    "                        may be repeated; default: $SECLOCK_SERVER, separated by spaces\n"
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
    "TIME is a number and a unit: ms, s, m or h; without a unit, seconds.\n"
    "Exit status: COMMAND's own, 128+N if signal N ended it; 64 usage, 69 server unavailable,\n"
    "74 the lock was lost, 75 somebody else holds it, 78 wrong configuration, 125 cannot fork,\n"
    "126 COMMAND cannot be run, 127 COMMAND not found. status: 0 held, 1 free; break: 0 broken,\n"
    "1 nobody held it.\n";

void say(const struct settings *settings, const char *format, ...)
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

/* NAME -- COMMAND..., status NAME or break NAME. A lock may have the name "status", too. */
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

/* The safest kind that needs no further words: several Redis servers mean a majority. */
static enum seclock_kind kind_by_server(const struct settings *settings)
{
    assert(settings->server_count > 0);
    if (settings->permits > 0)
        return SECLOCK_KIND_SEMAPHORE;
    if (settings->mode == SECLOCK_MODE_READ)
        return SECLOCK_KIND_READ_WRITE;
    if (strncmp(settings->servers[0], "mysql:", 6) == 0)
        return SECLOCK_KIND_TABLE;
    if (strncmp(settings->servers[0], "zookeeper:", 10) == 0)
        return SECLOCK_KIND_QUEUE;
    return settings->server_count > 1 ? SECLOCK_KIND_RED : SECLOCK_KIND_SIMPLE;
}

/* Checks what depends on several options, once all of them are known. */
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

void settings_read(struct settings *settings_out, int argc, char **argv)
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
