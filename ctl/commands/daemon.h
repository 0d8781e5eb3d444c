/* The health of a daemon, and its metrics from their Prometheus text, for status and top. */
#ifndef SECKILL_CTL_COMMANDS_DAEMON_H
#define SECKILL_CTL_COMMANDS_DAEMON_H

#include <jansson.h>

#include "ctl/context.h"

/* Returns the value of exactly this name and labels in the text of /metrics (NULL: no text); 0 if
 * it is not there. */
double metrics_value(const char *metrics, const char *name);

/* Returns a counter's growth; all of it when the daemon has restarted. */
double metrics_growth(const char *before, const char *now, const char *name);

/* Returns the quantile, 0.5 or 0.99, of a histogram's observations between the two texts, in its
 * own unit, by linear interpolation within the bucket; negative: no observations. */
double metrics_quantile(const char *before, const char *now, const char *name, double quantile);

enum { STATE_SIZE = 24 };

struct daemon_state {
    const struct address *address;
    char state[STATE_SIZE]; /* from /readyz, or "away" */
    char redis[STATE_SIZE]; /* "ok", "down", "read_only" …; "-" when it is away */
    char ledger[STATE_SIZE];
    char *metrics; /* the text of /metrics; NULL when it is away */
    int64_t at_ns; /* when the metrics were read, on the monotonic clock */
    char why[512]; /* why the daemon is away; else empty */
};

/* Asks the daemon. The caller frees the state. */
void daemon_ask(struct context *context, const struct address *address,
                struct daemon_state *state_out);
void daemon_free(struct daemon_state *state);

/* Returns a new object: the daemon's address, state, servers and, unless it is away, queue
 * and payments to be paid back. */
json_t *daemon_pack(const struct daemon_state *state);

bool daemon_ready(const struct daemon_state *state);

#endif
