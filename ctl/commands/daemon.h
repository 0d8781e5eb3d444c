/* One daemon of those in the configuration: its health and its metrics. */
#ifndef SECKILL_CTL_COMMANDS_DAEMON_H
#define SECKILL_CTL_COMMANDS_DAEMON_H

#include "ctl/context.h"
#include "ctl/commands/metrics.h"

enum { STATE_SIZE = 24 };

struct daemon_state {
    const struct address *address;
    char state[STATE_SIZE]; /* of /readyz, or "away" */
    char redis[STATE_SIZE]; /* "ok", "down", "read_only" …; "-" when it is away */
    char ledger[STATE_SIZE];
    struct metrics metrics; /* none when it is away */
    int64_t at_ns;          /* when they were read, by the monotonic clock */
    char why[512];          /* why it is away; else empty */
};

/* Asks the daemon. The caller frees the state. */
void daemon_ask(struct context *context, const struct address *address,
                struct daemon_state *state_out);
void daemon_free(struct daemon_state *state);

bool daemon_ready(const struct daemon_state *state);

#endif
