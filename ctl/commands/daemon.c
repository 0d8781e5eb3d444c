/* A daemon as status and top show it: its health, and its metrics from their Prometheus text. */
#include "ctl/commands/daemon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ctl/http.h"
#include "ctl/output/answer.h"

/* ---- metrics ---- */

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

/* ---- the daemon ---- */

static void copy_state(char out[STATE_SIZE], const char *text)
{
    snprintf(out, STATE_SIZE, "%s", *text ? text : "-");
    say_clean(out);
}

/* /readyz answers 503 with the same members while the daemon is not ready. */
static void ask_readiness(struct context *context, struct daemon_state *state)
{
    struct reply reply;
    struct call call = {
        .class = CLASS_OPS, .method = "GET", .path = "/readyz", .address = state->address};
    http_call(context->http, &call, &reply);
    const char *word = answer_text(reply.json, "status");
    copy_state(state->state, *word ? word : "away");
    copy_state(state->redis, answer_text(reply.json, "redis"));
    copy_state(state->ledger, answer_text(reply.json, "ledger"));
    if (*word == '\0')
        snprintf(state->why, sizeof state->why, "%s", reply.why);
    reply_free(&reply);
}

static void ask_metrics(struct context *context, struct daemon_state *state)
{
    struct reply reply;
    struct call call = {
        .class = CLASS_OPS, .method = "GET", .path = "/metrics", .address = state->address};
    http_call(context->http, &call, &reply);
    if (reply.outcome == OUTCOME_OK)
        metrics_parse(reply.text, &state->metrics);
    reply_free(&reply);
}

void daemon_ask(struct context *context, const struct address *address,
                struct daemon_state *state_out)
{
    *state_out = (struct daemon_state){.address = address};
    ask_readiness(context, state_out);
    if (state_out->why[0] == '\0')
        ask_metrics(context, state_out);
    state_out->at_ns = clock_now_ns();
}

void daemon_free(struct daemon_state *state)
{
    metrics_free(&state->metrics);
    *state = (struct daemon_state){.address = NULL};
}

json_t *daemon_pack(const struct daemon_state *state)
{
    json_t *row = json_pack("{s:s, s:s, s:s, s:s}", "address", state->address->shown, "status",
                            state->state, "redis", state->redis, "ledger", state->ledger);
    if (state->metrics.text)
        json_object_set_new(
            row, "queue",
            json_integer((json_int_t)metrics_value(&state->metrics, "seckill_queue_depth")));
    return row;
}

bool daemon_ready(const struct daemon_state *state)
{
    return strcmp(state->state, "ready") == 0;
}
