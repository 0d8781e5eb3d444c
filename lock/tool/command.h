/* Private to seclock: the command that runs while the lock is held, and the signals. */
#ifndef LOCK_SECLOCK_RUN_H
#define LOCK_SECLOCK_RUN_H

#include <signal.h>

#include "lock/tool/options.h"

/* Signals, as descriptors. */
struct inbox {
    int signals;   /* to be forwarded to the command */
    int children;  /* SIGCHLD */
    sigset_t mask; /* as it was before: the command's */
};

/* Remembers which descriptors are the caller's and so the command's. Before any other is opened. */
void run_note_inherited(void);

/* Blocks the signals and opens their descriptors. Before there is any thread: one that did not
 * block them would take one and forget it. */
void inbox_open(struct inbox *inbox_out);

/* Ends as the signal that came while waiting would have; returns an exit code if it does not. */
enum exit_code inbox_die(const struct inbox *inbox);

/* Runs the command to its end, told to end once `lost` is readable. `lost_out` says whether it was.
 * The exit code: the command's own, or why it could not be run. */
int run_command(const struct settings *settings, const struct inbox *inbox, int lost,
                bool *lost_out);

#endif
