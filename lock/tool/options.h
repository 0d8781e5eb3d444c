/* Private to seclock: its command line. */
#ifndef LOCK_TOOL_OPTIONS_H
#define LOCK_TOOL_OPTIONS_H

#include "lock/seclock.h"

enum { SERVERS_MAX = 32 };

/* Our own codes are those of sysexits.h, env(1) and timeout(1); any other code is the command's. */
enum exit_code {
    EXIT_HELD = 0,
    EXIT_FREE = 1, /* status, break: nobody holds the lock */
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
    bool kind_is_said; /* by any option, not guessed from the servers */
    const char *fence_env;
    enum seclock_kind kind;
    enum seclock_mode mode;
    int wait_ms, lease_ms, grace_ms, permits;
    bool quiet, verbose;
    const char *name;
    char **command; /* NULL: status or break */
    bool breaks;
};

/* Reads the command line, and takes the servers from the environment if it names none. A mistake
 * ends the program with EXIT_USAGE; --help and --version end it with success. */
void settings_read(struct settings *settings_out, int argc, char **argv);

/* Prints a message for the user, unless --quiet. */
void say(const struct settings *settings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
