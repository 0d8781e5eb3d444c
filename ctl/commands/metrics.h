/* The metrics of a daemon, read from their Prometheus text. */
#ifndef SECKILL_CTL_COMMANDS_METRICS_H
#define SECKILL_CTL_COMMANDS_METRICS_H

#include <stdbool.h>
#include <stddef.h>

struct metric {
    const char *name; /* with its labels */
    double value;
};

struct metrics {
    char *text; /* holds the names */
    struct metric *list;
    size_t count;
};

/* Reads all lines that are "name value". The caller frees the metrics. */
void metrics_parse(const char *text, struct metrics *metrics_out);
void metrics_free(struct metrics *metrics);

/* The value of exactly this name and labels; 0 if there is none. */
double metrics_value(const struct metrics *metrics, const char *name);

/* How much a counter has grown; all of it when the daemon has begun anew. */
double metrics_growth(const struct metrics *before, const struct metrics *now, const char *name);

/* The quantile, 0.5 or 0.99, of what a histogram has observed between the two, by linear
 * interpolation within its bucket, in the histogram's own unit; negative: it observed nothing. */
double metrics_quantile(const struct metrics *before, const struct metrics *now, const char *name,
                        double quantile);

#endif
