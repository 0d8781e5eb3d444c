/* Reads the health of a daemon, and its metrics from their Prometheus text, for status and top. */
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

/* Returns the line after the one that begins at `line`; NULL after the last. */
static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end && end[1] != '\0' ? end + 1 : NULL;
}

double metrics_value(const char *metrics, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = metrics; line; line = next_line(line))
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return strtod(line + length, NULL);
    return 0;
}

double metrics_growth(const char *before, const char *now, const char *name)
{
    double value = metrics_value(now, name), earlier = metrics_value(before, name);
    return value >= earlier ? value - earlier : value;
}

double metrics_quantile(const char *before, const char *now, const char *name, double quantile)
{
    char prefix[NAME_SIZE], total_name[NAME_SIZE], bucket[NAME_SIZE];
    snprintf(prefix, sizeof prefix, "%s_bucket{le=\"", name);
    snprintf(total_name, sizeof total_name, "%s_count", name);
    double total = metrics_growth(before, now, total_name);
    double wanted = total * quantile, low = 0, low_count = 0;
    if (total <= 0)
        return -1;
    for (const char *line = now; line; line = next_line(line)) {
        if (strncmp(line, prefix, strlen(prefix)) != 0)
            continue;
        double bound = strtod(line + strlen(prefix), NULL); /* reads +Inf as well */
        snprintf(bucket, sizeof bucket, "%.*s", (int)strcspn(line, " "), line);
        double count = metrics_growth(before, now, bucket);
        if (count >= wanted && isinf(bound))
            return low; /* beyond the last bound: at least this */
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

static void get(struct context *context, const struct address *address, const char *path,
                struct reply *reply_out)
{
    struct call call = {.class = CLASS_OPS, .method = "GET", .path = path, .address = address};
    http_call(context->http, &call, reply_out);
}

void daemon_ask(struct context *context, const struct address *address,
                struct daemon_state *state_out)
{
    struct reply reply;
    *state_out = (struct daemon_state){.address = address};
    get(context, address, "/readyz", &reply); /* 503 has the same members: it is not ready */
    const char *word = answer_text(reply.json, "status");
    copy_state(state_out->state, *word ? word : "away");
    copy_state(state_out->redis, answer_text(reply.json, "redis"));
    copy_state(state_out->ledger, answer_text(reply.json, "ledger"));
    if (*word == '\0') {
        snprintf(state_out->why, sizeof state_out->why, "%s", reply.why);
    } else {
        reply_free(&reply);
        get(context, address, "/metrics", &reply);
        if (reply.outcome == OUTCOME_OK) {
            state_out->metrics = reply.text;
            reply.text = NULL;
        }
    }
    reply_free(&reply);
    state_out->at_ns = clock_now_ns();
}

void daemon_free(struct daemon_state *state)
{
    free(state->metrics);
    *state = (struct daemon_state){.address = NULL};
}

json_t *daemon_pack(const struct daemon_state *state)
{
    const char *metrics = state->metrics;
    json_int_t depth = (json_int_t)metrics_value(metrics, "seckill_queue_depth");
    json_int_t due = (json_int_t)metrics_value(metrics, "seckill_refunds_due");
    bool counted = metrics && strstr(metrics, "\nseckill_refunds_due ");
    return json_pack("{s:s, s:s, s:s, s:s, s:o*, s:o*}", "address", state->address->shown, "status",
                     state->state, "redis", state->redis, "ledger", state->ledger, "queue",
                     metrics ? json_integer(depth) : NULL, "refunds_due",
                     counted ? json_integer(due) : NULL);
}

bool daemon_ready(const struct daemon_state *state)
{
    return strcmp(state->state, "ready") == 0;
}
