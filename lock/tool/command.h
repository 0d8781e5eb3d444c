/* Private to seclock: the command that runs while the lock is held, and its signals. */
#ifndef LOCK_TOOL_COMMAND_H
#define LOCK_TOOL_COMMAND_H

#include <signal.h>

#include "lock/tool/options.h"

/* Signals, as descriptors. */
struct inbox {
    int signals;   /* to be forwarded to the command */
    int children;  /* SIGCHLD */
    sigset_t mask; /* as it was before: the command's */
};

/* Remembers the inherited descriptors, which the command gets. Call it before opening any other. */
void run_note_inherited(void);

/* Blocks the signals and opens their descriptors. Call it before there is any thread: a thread that
 * does not block a signal would take it and forget it. */
void inbox_open(struct inbox *inbox_out);

/* Ends the program by the signal that came while it waited; returns an exit code if that fails. */
enum exit_code inbox_die(const struct inbox *inbox);

/* Runs the command to its end, and ends it once `lost` is readable, which `lost_out` tells. Returns
 * the command's exit code, or that for a command that cannot run. */
int run_command(const struct settings *settings, const struct inbox *inbox, int lost,
                bool *lost_out);

#endif
