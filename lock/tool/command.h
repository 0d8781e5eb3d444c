/* Private to seclock: its settings, and the command that runs while the lock is held, with its
 * signals. */
#ifndef LOCK_TOOL_COMMAND_H
#define LOCK_TOOL_COMMAND_H

#include <signal.h>

#include "lock/seclock.h"

enum { SERVERS_MAX = 32 };

/* Our own codes are from sysexits.h, env(1) and timeout(1); any other code is the command's. */
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
    bool kind_is_said; /* by an option, not guessed from the servers */
    const char *fence_env;
    enum seclock_kind kind;
    enum seclock_mode mode;
    int wait_ms, lease_ms, grace_ms, permits;
    bool quiet, verbose;
    const char *name;
    char **command; /* NULL: status or break */
    bool breaks;
};

/* Prints a message for the user, unless --quiet. */
void say(const struct settings *settings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The signals to be forwarded to the command, as a descriptor. */
struct inbox {
    int signals;
    sigset_t set;
    sigset_t mask; /* the former mask, which the command gets */
};

/* Remembers the inherited descriptors, which the command gets. Call it before opening any other. */
void run_note_inherited(void);

/* Blocks the signals, and SIGCHLD, and opens the descriptor. Call it before there is any thread: a
 * thread that does not block a signal would take it and forget it. */
void inbox_open(struct inbox *inbox_out);

/* Ends the program by the signal that came while it waited; returns an exit code if that fails. */
enum exit_code inbox_die(const struct inbox *inbox);

/* Runs the command to its end, and ends it once `lost` is readable (then `lost_out` is true).
 * Returns the command's exit code, or the code for a command that cannot run. */
int run_command(const struct settings *settings, const struct inbox *inbox, int lost,
                bool *lost_out);

#endif
