/* Prints answers, or why a call did not succeed; returns the exit status. */
#include "ctl/output/answer.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "ctl/output/say.h"

enum { PATH_SIZE = 1024, PAUSE_MS = 500 /* between two tries of a page */ };

int answer_status(const struct reply *reply)
{
    if (reply->outcome != OUTCOME_REFUSED)
        return reply->outcome == OUTCOME_UNKNOWN ? EX_TEMPFAIL : EX_UNAVAILABLE;
    if (strcmp(reply->code, "not_found") == 0)
        return EX_CONFIG;
    switch (reply->status) {
    case 401:
        return EX_NOPERM;
    case 404:
        return EX_NOINPUT;
    case 409:
        return EX_REFUSED;
    default:
        return reply->code[0] != '\0' ? EX_DATAERR : EX_PROTOCOL;
    }
}

/* Adds a word of a command line, in quotes if a shell would interpret it: 'a'\''b' is a'b. */
static char *put_word(char *at, const char *word)
{
    bool plain = *word != '\0' && !strpbrk(word, " \t\n\"'\\$`!*?[](){}<>|&;~#");
    at = stpcpy(at, plain ? " " : " '");
    for (; *word; word++)
        at = *word == '\'' ? stpcpy(at, "'\\''") : stpcpy(at, (char[]){*word, '\0'});
    return stpcpy(at, plain ? "" : "'");
}

/* Always writes the whole command: without its key it would be another call. */
char *answer_repeat(const struct context *context, const char *repeat)
{
    static const char lead[] = "to find out, repeat the call, which does nothing twice: seckillctl";
    size_t size = sizeof lead + (repeat ? strlen(repeat) + 1 : 0);
    for (int i = 1; i < context->argc; i++)
        size += 4 * strlen(context->argv[i]) + 3; /* each character a quote, a blank, two quotes */
    char *line = memory_must(malloc(size)), *at = stpcpy(line, lead);
    for (int i = 1; i < context->argc; i++)
        at = put_word(at, context->argv[i]);
    if (repeat && !has_option(context, OPTION_KEY))
        stpcpy(stpcpy(at, " "), repeat);
    return line;
}

int answer_check(const struct context *context, const struct reply *reply, const char *repeat)
{
    char *line;
    switch (reply->outcome) {
    case OUTCOME_OK:
        if (json_is_object(reply->json))
            return EX_OK;
        return REFUSE(EX_PROTOCOL,
                      "the answer is not a JSON object: is this the address of the service?");
    case OUTCOME_REFUSED:
        say("%s", reply->why);
        if (strcmp(reply->code, "not_found") == 0)
            say("is this the address for such calls? See admin and shop in seckillctl(1)");
        break;
    case OUTCOME_UNKNOWN:
        say("the outcome is unknown: %s", reply->why);
        line = answer_repeat(context, repeat);
        say("%s", line);
        free(line);
        break;
    default:
        say("nothing was done: %s", reply->why);
    }
    return answer_status(reply);
}

int answer_ask(struct context *context, const struct call *call, struct reply *reply_out)
{
    http_call(context->http, call, reply_out);
    int status = answer_check(context, reply_out, NULL);
    if (status != EX_OK)
        reply_free(reply_out);
    return status;
}

int answer_get(struct context *context, const char *path, struct reply *reply_out)
{
    struct call call = {.class = CLASS_ADMIN, .method = "GET", .path = path};
    return answer_ask(context, &call, reply_out);
}

/* Passes a page to `take`, and sets pages->after to the beginning of the next one. */
static int read_page(struct context *context, struct pages *pages)
{
    char path[PATH_SIZE], after[ENCODED_SIZE];
    struct reply reply;
    int64_t until_ns = clock_now_ns() + context->timeout_s * CLOCK_NS_PER_S;
    const char *parameter = strchr(pages->path, '?') ? "&after=" : "?after=";
    snprintf(path, sizeof path, "%s%s%s", pages->path, pages->after[0] ? parameter : "",
             http_encode(pages->after, after));
    struct call call = {.class = pages->class, .method = "GET", .path = path};
    http_call(context->http, &call, &reply);
    while (pages->patient && reply.outcome == OUTCOME_FAILED && clock_now_ns() < until_ns) {
        reply_free(&reply);
        clock_sleep_ns(PAUSE_MS * CLOCK_NS_PER_MS);
        http_call(context->http, &call, &reply);
    }
    int status = answer_check(context, &reply, NULL);
    if (status == EX_OK) {
        const char *next = answer_text(reply.json, "next");
        bool fits = strlen(next) < sizeof pages->after;
        status = fits ? pages->take(pages->argument, reply.json) : EX_PROTOCOL;
        if (status == EX_PROTOCOL)
            say("the answer to %s is not of the form that this program knows", path);
        else if (status == EX_OK)
            strcpy(pages->after, next);
    }
    reply_free(&reply);
    return status;
}

int answer_pages(struct context *context, struct pages *pages)
{
    int status;
    do
        status = read_page(context, pages);
    while (status == EX_OK && pages->after[0] != '\0');
    return status;
}

/* With several pods, an object gets the number of the present one. */
static void add_pod(const struct context *context, json_t *value)
{
    if (json_is_object(value) && context->config.pod_count > 1)
        json_object_set_new(value, "pod", json_integer((json_int_t)context->config.pod));
}

struct rows {
    const struct context *context;
    const char *name;
    json_t *all; /* an array */
};

static int take_rows(void *argument, json_t *page)
{
    const struct rows *rows = argument;
    json_t *some = json_object_get(page, rows->name);
    for (size_t i = 0; i < json_array_size(some); i++)
        add_pod(rows->context, json_array_get(some, i));
    return json_array_extend(rows->all, some) ? EX_PROTOCOL : EX_OK;
}

int answer_list(struct context *context, struct pages *pages, const char *name,
                void (*print)(json_t *rows))
{
    struct rows rows = {context, name, json_array()};
    int worst = EX_OK;
    pages->take = take_rows;
    pages->argument = &rows;
    for (size_t pod = context->pods_begin; pod < context->pods_end; pod++) {
        config_use_pod(&context->config, pod);
        pages->after[0] = '\0';
        int status = answer_pages(context, pages);
        worst = status > worst ? status : worst;
    }
    bool some = worst == EX_OK || json_array_size(rows.all) > 0;
    json_t *list = json_pack("{s:o}", name, rows.all);
    if (some && has_option(context, OPTION_JSON))
        answer_print_all(list);
    else if (some)
        print(rows.all);
    json_decref(list);
    return worst;
}

void answer_print_row(const struct context *context, json_t *row, void (*print)(json_t *rows))
{
    json_t *rows = json_pack("[O]", row);
    if (has_option(context, OPTION_JSON))
        answer_print(context, row);
    else
        print(rows);
    json_decref(rows);
}

void answer_print_all(const json_t *value)
{
    json_dumpf(value, stdout,
               JSON_COMPACT | JSON_ENSURE_ASCII); /* no text in ASCII controls a terminal */
    putchar('\n');
}

void answer_print(const struct context *context, json_t *value)
{
    add_pod(context, value);
    answer_print_all(value);
}

long long answer_integer(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

const char *answer_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}
