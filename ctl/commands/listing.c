/* Walks all orders, page by page. */
#include "ctl/commands/listing.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "ctl/output/answer.h"
#include "ctl/http.h"
#include "ctl/output/say.h"

enum {
    PATH_SIZE = 256,
    ID_SIZE = 24,
    PAUSE_MS = 500, /* between two tries of a page */
};

struct walk {
    struct context *context;
    const struct listing *listing;
    char last[ID_SIZE]; /* where the next page begins; empty: at the first order */
    bool malformed;
    bool stopped; /* by the taker */
};

/* All of an order is printable ASCII: anything else could be for the terminal that shows it. */
static bool is_order(const json_t *order)
{
    const char *name;
    json_t *value;
    if (!json_is_object(order) || answer_text(order, "order_id")[0] == '\0')
        return false;
    json_object_foreach((json_t *)(uintptr_t)order, name, value)
    {
        for (const char *at = json_is_string(value) ? json_string_value(value) : ""; *at; at++)
            if (*at < ' ' || *at > '~')
                return false;
    }
    return true;
}

static bool take_order(struct walk *walk, const json_t *order)
{
    const char *id = answer_text(order, "order_id");
    walk->malformed = !is_order(order) || strlen(id) >= ID_SIZE;
    if (walk->malformed)
        return false;
    strcpy(walk->last, id);
    walk->stopped = !walk->listing->take(walk->listing->argument, order);
    return !walk->stopped;
}

/* `next` names where the following page begins, also when this one is short or empty. False when
 * the walk ends with this page. */
static bool take_page(struct walk *walk, const json_t *page)
{
    size_t i;
    const json_t *order, *orders = json_object_get(page, "orders");
    const char *next = json_string_value(json_object_get(page, "next"));
    walk->malformed = !json_is_array(orders) || (next && strlen(next) >= ID_SIZE);
    if (walk->malformed)
        return false;
    json_array_foreach(orders, i, order)
    {
        if (!take_order(walk, order))
            return false;
    }
    if (next)
        strcpy(walk->last, next);
    return next != NULL;
}

static void add_parameter(char path[PATH_SIZE], const char *name, const char *value)
{
    size_t length = strlen(path);
    if (value && *value != '\0')
        snprintf(path + length, PATH_SIZE - length, "&%s=%s", name, value);
}

/* Tries a page anew until the time-out has passed, as a daemon may just be restarting. */
static int read_page(struct walk *walk, bool *more_out)
{
    char path[PATH_SIZE] = "/admin/orders?limit=1000";
    struct reply reply;
    int64_t timeout_s = 0;
    options_number(&walk->context->options, OPTION_TIMEOUT, 1, TIMEOUT_S_MAX, TIMEOUT_S,
                   &timeout_s);
    int64_t until_ns = clock_now_ns() + timeout_s * CLOCK_NS_PER_S;
    add_parameter(path, "sku", walk->listing->sku);
    add_parameter(path, "status", walk->listing->status);
    add_parameter(path, "after", walk->last);
    struct call call = {.class = CLASS_ADMIN, .method = "GET", .path = path};
    http_call(walk->context->http, &call, &reply);
    while (reply.outcome == OUTCOME_FAILED && clock_now_ns() < until_ns) {
        reply_free(&reply);
        clock_sleep_ns(PAUSE_MS * CLOCK_NS_PER_MS);
        http_call(walk->context->http, &call, &reply);
    }
    int status = answer_check(walk->context, &reply, NULL);
    *more_out = status == EX_OK && take_page(walk, reply.json);
    reply_free(&reply);
    return status;
}

static void say_where(const struct context *context, const char *last)
{
    if (context->config.pod_count == 1)
        say("all orders up to %s were read; --after %s goes on", last, last);
    else
        say("all orders up to %s of pod %zu were read; --pod %zu --after %s goes on", last,
            context->config.pod, context->config.pod, last);
}

int listing_walk(struct context *context, const struct listing *listing)
{
    struct walk walk = {.context = context, .listing = listing};
    bool more = true;
    int status = EX_OK;
    snprintf(walk.last, sizeof walk.last, "%s", listing->after ? listing->after : "");
    while (status == EX_OK && more)
        status = read_page(&walk, &more);
    if (status != EX_OK && walk.last[0] != '\0')
        say_where(context, walk.last);
    if (!walk.malformed)
        return status;
    say("the listing is not of the form that this program knows");
    return EX_PROTOCOL;
}
