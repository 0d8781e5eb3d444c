/* One daemon of those in the configuration: its health and its metrics. */
#include "ctl/commands/daemon.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "ctl/output/answer.h"
#include "ctl/http.h"
#include "ctl/output/say.h"

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

bool daemon_ready(const struct daemon_state *state)
{
    return strcmp(state->state, "ready") == 0;
}
