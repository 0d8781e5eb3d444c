/* Follows the feed of events: seckillctl events. */
#include "ctl/events/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/commands/sale.h"
#include "ctl/http.h"
#include "ctl/output/answer.h"
#include "ctl/pods.h"

enum {
    PATH_SIZE = 64,
    LINE_SIZE = 1024,
    WAIT_S_MAX = 30, /* that the service lets a request wait for an event */
};

struct tail {
    const struct context *context;
    const char *sku; /* NULL: of all sales */
};

/* ---- one event ---- */

static void print_order(char *at, size_t size, const json_t *event, const json_t *data)
{
    char version[24] = "-"; /* the payment of an order is no version of it */
    if (json_object_get(event, "version"))
        snprintf(version, sizeof version, "v%lld", answer_integer(event, "version"));
    snprintf(at, size, "%-3s %s %lld %s %s", version, answer_text(data, "user_id"),
             answer_integer(data, "qty"), answer_text(event, "sku"),
             answer_text(data, "payment_ref"));
}

static void print_sale(char *at, size_t size, const json_t *data)
{
    if (json_is_true(json_object_get(data, "retired")))
        snprintf(at, size, "retired");
    else
        snprintf(at, size, "round %lld: %lld of %lld left%s", answer_integer(data, "round"),
                 answer_integer(data, "available"), answer_integer(data, "total"),
                 json_is_true(json_object_get(data, "paused")) ? ", paused" : "");
}

static void print_event(const json_t *event)
{
    char line[LINE_SIZE] = "", what[LINE_SIZE / 2] = "";
    const char *type = answer_text(event, "type");
    const json_t *data = json_object_get(event, "data");
    if (strncmp(type, "sale.", strlen("sale.")) == 0)
        print_sale(what, sizeof what, data);
    else
        print_order(what, sizeof what, event, data);
    snprintf(line, sizeof line, "%s %-18s %-19s %s", answer_text(event, "time"), type,
             answer_text(event, "subject"), what);
    say_clean(line);
    size_t length = strlen(line);
    while (length > 0 && line[length - 1] == ' ') /* there is no payment */
        line[--length] = '\0';
    puts(line);
}

/* ---- the feed ---- */

static int take(void *argument, json_t *page)
{
    const struct tail *tail = argument;
    const json_t *events = json_object_get(page, "events");
    size_t i;
    json_t *event;
    if (!json_is_array(events) || answer_text(page, "next")[0] == '\0')
        return EX_PROTOCOL;
    json_array_foreach(events, i, event)
    {
        if (answer_text(event, "type")[0] == '\0')
            return EX_PROTOCOL;
        if (tail->sku && strcmp(answer_text(event, "sku"), tail->sku) != 0)
            continue;
        if (has_option(tail->context, OPTION_JSON))
            answer_print(tail->context, event);
        else
            print_event(event);
    }
    return fflush(stdout) == 0 ? EX_OK : EX_IOERR;
}

/* Reads on from page to page without an end, as each one has a next. */
static int follow(struct context *context, const char *sku)
{
    char path[PATH_SIZE];
    const char *after = context->options.values[OPTION_AFTER];
    struct tail tail = {context, sku};
    struct pages pages = {
        .class = CLASS_SHOP, .path = path, .patient = true, .take = take, .argument = &tail};
    int64_t half_s = context->timeout_s / 2, wait_s = half_s < WAIT_S_MAX ? half_s : WAIT_S_MAX;
    snprintf(path, sizeof path, "/events?limit=1000&wait_s=%" PRId64, wait_s);
    if (!has_option(context, OPTION_FROM_OLDEST))
        snprintf(pages.after, sizeof pages.after, "%s", after ? after : "end");
    return answer_pages(context, &pages);
}

int events_run(struct context *context)
{
    const char *sku = argument(context, 2);
    if (strcmp(argument(context, 1), "tail") != 0)
        return REFUSE(EX_USAGE, "events takes tail");
    if (sku && !sale_identifier(sku, "the sku"))
        return EX_USAGE;
    if (has_option(context, OPTION_AFTER) && has_option(context, OPTION_FROM_OLDEST))
        return REFUSE(EX_USAGE, "--after and --from-oldest are two places to begin");
    int status = EX_OK;
    if (sku && context->pods_end - context->pods_begin > 1)
        status = pods_find_sku(context, sku, true);
    return status == EX_OK ? follow(context, sku) : status;
}
