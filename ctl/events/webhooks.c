/* Makes and steers the receivers of events: seckillctl webhooks.
 *
 * why_one_pod: each pod has webhooks of its own, with secrets of their own. So the list shows those
 * of all pods, and whatever else concerns one webhook wants --pod. */
#include "ctl/events/events.h"

#include <stdio.h>
#include <string.h>

#include "ctl/commands/sale.h"
#include "ctl/http.h"
#include "ctl/output/answer.h"
#include "ctl/output/table.h"

enum {
    PATH_SIZE = 128,
    VALUE_SIZE = 4096,
    BATCH_MAX = 1000,
    CONCURRENCY_MAX = 16,
};

/* ---- printing ---- */

static void print_list(json_t *webhooks)
{
    static const struct column columns[] = {
        {"pod", "pod", CELL_NUMBER}, /* only where there are several */
        {"webhook", "name", CELL_TEXT},
        {"state", "state", CELL_TEXT},
        {"reason", "reason", CELL_TEXT},
        {"lag", "lag", CELL_NUMBER},
        {"delivered", "delivered", CELL_NUMBER},
        {"failures", "failures", CELL_NUMBER},
        {"failing since", "failing_since", CELL_TEXT},
        {"last status", "last_status", CELL_NUMBER},
        {"undelivered", "undelivered", CELL_NUMBER},
        {"url", "url", CELL_TEXT},
    };
    size_t first = json_object_get(json_array_get(webhooks, 0), "pod") ? 0 : 1;
    table_print(columns + first, sizeof columns / sizeof *columns - first, webhooks, stdout);
}

/* Returns the value for a table: a list becomes a text, an empty one "all". */
static json_t *shown_value(json_t *value)
{
    char text[VALUE_SIZE] = "all";
    size_t i, length = 0;
    json_t *one;
    if (!json_is_array(value))
        return json_incref(value);
    json_array_foreach(value, i, one)
    {
        const char *word = json_string_value(one);
        if (word && length + strlen(word) + 2 < sizeof text)
            length += (size_t)sprintf(text + length, "%s%s", length > 0 ? " " : "", word);
    }
    return json_string(text);
}

/* Prints the members of an answer, each on a line. */
static void print_members(struct context *context, json_t *answer)
{
    static const struct column columns[] = {{"member", "member", CELL_TEXT},
                                            {"value", "value", CELL_TEXT}};
    const char *name;
    json_t *value;
    if (has_option(context, OPTION_JSON)) {
        answer_print(context, answer);
        return;
    }
    json_t *rows = json_array();
    json_object_foreach(answer, name, value) json_array_append_new(
        rows, json_pack("{s:s, s:o}", "member", name, "value", shown_value(value)));
    TABLE_PRINT(columns, rows);
    json_decref(rows);
}

/* ---- calls ---- */

/* The path of the webhook that the second argument names, or of a call on it. */
static void write_path(const struct context *context, const char *what, char path_out[PATH_SIZE])
{
    snprintf(path_out, PATH_SIZE, "/admin/webhooks/%s%s", argument(context, 2), what);
}

/* Makes the call on the webhook that the second argument names, and prints the answer. `body`: NULL
 * or the caller's. The caller frees the reply in any case. */
static int call_webhook(struct context *context, const char *method, const char *what,
                        const json_t *body, struct reply *reply_out)
{
    char path[PATH_SIZE];
    write_path(context, what, path);
    struct call call = {.class = CLASS_ADMIN, .method = method, .path = path, .body = body};
    http_call(context->http, &call, reply_out);
    if (reply_out->repeated && strcmp(reply_out->code, "unknown_undelivered") == 0)
        return REFUSE(EX_OK, "the first try has done it, and its answer was lost");
    int status = answer_check(context, reply_out, NULL);
    if (status == EX_OK)
        print_members(context, reply_out->json);
    return status;
}

/* With the id of a request as third argument, the call is on that. */
static int call_simply(struct context *context, const char *method, const char *what)
{
    struct reply reply;
    bool on_request = context->options.argument_count > 3;
    json_t *body = on_request ? json_pack("{s:s}", "id", argument(context, 3)) : NULL;
    int status = call_webhook(context, method, what, body, &reply);
    reply_free(&reply);
    json_decref(body);
    return status;
}

/* Reads the webhook as it is. EX_OK: the caller frees the reply. */
static int read_webhook(struct context *context, struct reply *reply_out)
{
    char path[PATH_SIZE];
    write_path(context, "", path);
    return answer_get(context, path, reply_out);
}

/* ---- the commands ---- */

static int list(struct context *context)
{
    struct pages pages = {.class = CLASS_ADMIN, .path = "/admin/webhooks"};
    return answer_list(context, &pages, "webhooks", print_list);
}

static json_t *texts_of(const struct options *options, enum ctl_option option)
{
    json_t *texts = json_array();
    for (size_t i = 0; i < options->given_count; i++)
        if (options->given[i].option == option)
            json_array_append_new(texts, json_string(options->given[i].value));
    return texts;
}

/* Sends the settings, and tells what becomes of the secret. Releases `body`. */
static int put(struct context *context, json_t *body, bool rotates)
{
    struct reply reply;
    if (!body)
        return REFUSE(EX_USAGE, "a text is not in UTF-8");
    int status = call_webhook(context, "PUT", "", body, &reply);
    bool secret = answer_text(reply.json, "secret")[0] != '\0';
    if (status == EX_OK && secret)
        say("the secret is shown only now: give it to the receiver%s",
            rotates ? " within a day, in which the former one goes on signing" : "");
    if (status == EX_OK && reply.repeated && rotates)
        say("if the first try replaced it, this is the same secret");
    if (status == EX_OK && reply.repeated && !rotates && !secret)
        say("if the first try made the webhook, its secret was lost: seckillctl webhooks rotate %s",
            argument(context, 2));
    reply_free(&reply);
    json_decref(body);
    return status;
}

/* Asks before the settings of a webhook that exists are replaced. */
static int confirm_add(struct context *context)
{
    char path[PATH_SIZE];
    struct reply reply;
    write_path(context, "", path);
    struct call call = {.class = CLASS_ADMIN, .method = "GET", .path = path};
    http_call(context->http, &call, &reply);
    int status =
        strcmp(reply.code, "unknown_webhook") == 0 ? EX_OK : answer_check(context, &reply, NULL);
    if (reply.outcome == OUTCOME_OK && status == EX_OK)
        status = CONFIRM(context, "replaces the settings of the webhook %s, which sends to %s",
                         argument(context, 2), answer_text(reply.json, "url"));
    reply_free(&reply);
    return status;
}

static int add(struct context *context)
{
    const struct options *options = &context->options;
    int64_t batch = 0, concurrency = 0; /* the service has defaults */
    if (!options_number(options, OPTION_BATCH, 1, BATCH_MAX, 0, &batch) ||
        !options_number(options, OPTION_CONCURRENCY, 1, CONCURRENCY_MAX, 0, &concurrency))
        return EX_USAGE;
    int status = confirm_add(context);
    if (status != EX_OK)
        return status;
    json_t *body = json_pack("{s:s, s:o, s:o, s:o*, s:o*}", "url", argument(context, 3), "types",
                             texts_of(options, OPTION_TYPE), "skus", texts_of(options, OPTION_SKU),
                             "batch", batch > 0 ? json_integer(batch) : NULL, "concurrency",
                             concurrency > 0 ? json_integer(concurrency) : NULL);
    return put(context, body, false);
}

static int rotate(struct context *context)
{
    static const char *const settings[] = {"url",         "types",     "skus",        "batch",
                                           "concurrency", "timeout_s", "retry_max_s", "give_up_s",
                                           "content_type"}; /* absent headers stay */
    struct reply reply;
    int status = read_webhook(context, &reply);
    if (status != EX_OK)
        return status;
    json_t *body = json_pack("{s:b}", "rotate_secret", 1);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        json_object_set(body, settings[i], json_object_get(reply.json, settings[i]));
    reply_free(&reply);
    return put(context, body, true);
}

static int test(struct context *context)
{
    struct reply reply;
    int status = call_webhook(context, "POST", "/test", NULL, &reply);
    if (status == EX_OK && strcmp(answer_text(reply.json, "result"), "ok") != 0)
        status = EX_REFUSED;
    reply_free(&reply);
    return status;
}

static int replay(struct context *context)
{
    struct reply reply;
    const char *after = context->options.values[OPTION_AFTER];
    int64_t id = 0;
    if (!options_number(&context->options, OPTION_AFTER, 0, INT64_MAX, 0, &id))
        return EX_USAGE;
    if (!after)
        return REFUSE(EX_USAGE, "--after ID is needed: the event before the first one to send");
    json_t *body = json_pack("{s:s}", "after", after);
    int status = call_webhook(context, "POST", "/replay", body, &reply);
    if (strcmp(reply.code, "cursor_expired") == 0)
        say("the oldest event that is kept comes with --after %s",
            answer_text(reply.json, "oldest"));
    reply_free(&reply);
    json_decref(body);
    return status;
}

/* The requests that the receiver refuses. */
static int list_undelivered(struct context *context)
{
    static const struct column columns[] = {
        {"id", "id", CELL_TEXT},
        {"events", "events", CELL_NUMBER},
        {"failing since", "failing_since", CELL_TEXT},
        {"given up at", "given_up_at", CELL_TEXT},
        {"last answer", "last_answer", CELL_TEXT},
    };
    char path[PATH_SIZE];
    struct reply reply;
    write_path(context, "/undelivered", path);
    int status = answer_get(context, path, &reply);
    if (status == EX_OK && has_option(context, OPTION_JSON))
        answer_print(context, reply.json);
    else if (status == EX_OK)
        TABLE_PRINT(columns, json_object_get(reply.json, "undelivered"));
    reply_free(&reply);
    return status;
}

static int discard_undelivered(struct context *context)
{
    int status = CONFIRM(context, "forgets the request %s, which %s has not got",
                         argument(context, 3), argument(context, 2));
    return status == EX_OK ? call_simply(context, "POST", "/undelivered/discard") : status;
}

static int remove_webhook(struct context *context)
{
    struct reply reply;
    int status = read_webhook(context, &reply);
    if (status != EX_OK)
        return status;
    status = CONFIRM(context, "removes the webhook %s, to which %lld events are still to be sent",
                     argument(context, 2), answer_integer(reply.json, "lag"));
    reply_free(&reply);
    return status == EX_OK ? call_simply(context, "DELETE", "") : status;
}

/* ---- which one ---- */

static const struct action {
    const char *name, *arguments;
    size_t count; /* of arguments, its own name included */
    uint64_t options;
    int (*run)(struct context *context);
    const char *method, *call; /* without `run`: the call on the webhook that does it all */
} actions[] = {
    {"list", "", 1, .run = list},
    {"show", " NAME", 2, .method = "GET", .call = ""},
    {"add", " NAME URL", 3,
     OPTION(TYPE) | OPTION(SKU) | OPTION(BATCH) | OPTION(CONCURRENCY) | OPTION(YES), .run = add},
    {"rotate", " NAME", 2, .run = rotate},
    {"test", " NAME", 2, .run = test},
    {"replay", " NAME --after ID", 2, OPTION(AFTER), .run = replay},
    {"pause", " NAME", 2, .method = "POST", .call = "/pause"},
    {"resume", " NAME", 2, .method = "POST", .call = "/resume"},
    {"undelivered", " NAME", 2, .run = list_undelivered},
    {"retry", " NAME ID", 3, .method = "POST", .call = "/undelivered/replay"},
    {"discard", " NAME ID", 3, OPTION(YES), .run = discard_undelivered},
    {"remove", " NAME", 2, OPTION(YES), .run = remove_webhook},
};

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return REFUSE(NULL, "webhooks does not know %s: see seckillctl help webhooks", name);
}

int webhooks_run(struct context *context)
{
    const struct action *action = find_action(argument(context, 1));
    if (!action)
        return EX_USAGE;
    uint64_t others = options_given(&context->options) & ~(action->options | OPTIONS_OF_ALL);
    if (context->options.argument_count != action->count + 1 || others != 0)
        return REFUSE(EX_USAGE, "usage: seckillctl webhooks %s%s%s", action->name,
                      action->arguments, others == 0 ? "" : ", with options of its own only");
    if (action->count == 1)
        return action->run(context);
    if (!sale_identifier(argument(context, 2), "the name"))
        return EX_USAGE;
    if (context->pods_end - context->pods_begin > 1)
        return REFUSE(EX_USAGE, "each pod has webhooks of its own: --pod says which one is meant");
    return action->run ? action->run(context) : call_simply(context, action->method, action->call);
}
