/* A daemon as status and top show it: its health, and its metrics from their Prometheus text. */
#ifndef SECKILL_CTL_COMMANDS_DAEMON_H
#define SECKILL_CTL_COMMANDS_DAEMON_H

#include <jansson.h>

#include "ctl/context.h"

/* The value of exactly this name and labels in the text of /metrics, NULL for none; 0 if it is not
 * there. */
double metrics_value(const char *metrics, const char *name);

/* How much a counter has grown; all of it when the daemon has begun anew. */
double metrics_growth(const char *before, const char *now, const char *name);

/* The quantile, 0.5 or 0.99, of what a histogram has observed between the two, by linear
 * interpolation within its bucket, in the histogram's own unit; negative: it observed nothing. */
double metrics_quantile(const char *before, const char *now, const char *name, double quantile);

enum { STATE_SIZE = 24 };

struct daemon_state {
    const struct address *address;
    char state[STATE_SIZE]; /* of /readyz, or "away" */
    char redis[STATE_SIZE]; /* "ok", "down", "read_only" …; "-" when it is away */
    char ledger[STATE_SIZE];
    char *metrics; /* the text of /metrics; NULL when it is away */
    int64_t at_ns; /* when they were read, by the monotonic clock */
    char why[512]; /* why it is away; else empty */
};

/* Asks the daemon. The caller frees the state. */
void daemon_ask(struct context *context, const struct address *address,
                struct daemon_state *state_out);
void daemon_free(struct daemon_state *state);

/* Its address, state and servers and, unless it is away, its queue: a new object. */
json_t *daemon_pack(const struct daemon_state *state);

bool daemon_ready(const struct daemon_state *state);

#endif
