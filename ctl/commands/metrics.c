/* The metrics of a daemon, read from their Prometheus text. */
#include "ctl/commands/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 128 };

static void add_line(struct metrics *metrics, char *line)
{
    char *end = NULL, *blank = strrchr(line, ' ');
    if (line[0] == '#' || !blank)
        return;
    double value = strtod(blank + 1, &end);
    if (end == blank + 1 || *end != '\0')
        return;
    *blank = '\0';
    metrics->list[metrics->count++] = (struct metric){.name = line, .value = value};
}

void metrics_parse(const char *text, struct metrics *metrics_out)
{
    size_t lines = 1;
    char *rest = NULL;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    *metrics_out = (struct metrics){.text = strdup(text)};
    metrics_out->list = calloc(lines, sizeof *metrics_out->list);
    if (!metrics_out->text || !metrics_out->list)
        abort();
    for (char *line = strtok_r(metrics_out->text, "\r\n", &rest); line;
         line = strtok_r(NULL, "\r\n", &rest))
        add_line(metrics_out, line);
}

void metrics_free(struct metrics *metrics)
{
    free(metrics->text);
    free(metrics->list);
    *metrics = (struct metrics){.text = NULL};
}

double metrics_value(const struct metrics *metrics, const char *name)
{
    for (size_t i = 0; i < metrics->count; i++)
        if (strcmp(metrics->list[i].name, name) == 0)
            return metrics->list[i].value;
    return 0;
}

double metrics_growth(const struct metrics *before, const struct metrics *now, const char *name)
{
    double value = metrics_value(now, name), earlier = metrics_value(before, name);
    return value >= earlier ? value - earlier : value;
}

/* The upper bound of a bucket of the histogram; false for any other metric. */
static bool read_bucket(const struct metric *metric, const char *prefix, double *bound_out)
{
    size_t length = strlen(prefix);
    if (strncmp(metric->name, prefix, length) != 0)
        return false;
    const char *bound = metric->name + length;
    *bound_out = strncmp(bound, "+Inf", 4) == 0 ? INFINITY : strtod(bound, NULL);
    return true;
}

double metrics_quantile(const struct metrics *before, const struct metrics *now, const char *name,
                        double quantile)
{
    char prefix[NAME_SIZE], total_name[NAME_SIZE];
    snprintf(prefix, sizeof prefix, "%s_bucket{le=\"", name);
    snprintf(total_name, sizeof total_name, "%s_count", name);
    double total = metrics_growth(before, now, total_name);
    double wanted = total * quantile, low = 0, low_count = 0, bound = 0;
    if (total <= 0)
        return -1;
    for (size_t i = 0; i < now->count; i++) {
        if (!read_bucket(&now->list[i], prefix, &bound))
            continue;
        double count = metrics_growth(before, now, now->list[i].name);
        if (count >= wanted && isinf(bound))
            return low; /* beyond the last bound: at least that */
        if (count >= wanted)
            return count > low_count
                       ? low + (bound - low) * (wanted - low_count) / (count - low_count)
                       : bound;
        low = bound;
        low_count = count;
    }
    return low;
}
