/* Walks all orders: by the service's stream, and page by page from where the stream breaks.
 *
 * why_pages: a stream cannot go on where it broke, and begins with the first order of all. */
#include "ctl/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ctl/answer.h"
#include "ctl/csv.h"
#include "ctl/http.h"
#include "ctl/say.h"

enum {
    LINE_SIZE = 512, /* bytes of a line: three identifiers, numbers and times */
    PATH_SIZE = 256,
    ID_SIZE = 24,
    PAUSE_MS = 500, /* between two tries of a page */
};

struct walk {
    struct context *context;
    const struct listing *listing;
    char line[LINE_SIZE]; /* what has come of the present line */
    size_t length;
    char last[ID_SIZE]; /* the id of the last order taken; empty: none */
    bool header_seen;
    bool malformed;
    bool stopped; /* by the taker */
};

/* ---- lines ---- */

/* All of a line is printable ASCII: anything else could be for the terminal that shows it. */
static bool is_printable(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (line[i] < ' ' || line[i] > '~')
            return false;
    return true;
}

static bool take_line(struct walk *walk, const char *line, size_t length)
{
    size_t id = strspn(line, "0123456789");
    if (id == 0 || id >= ID_SIZE || line[id] != ',' || !is_printable(line, length)) {
        walk->malformed = true;
        return false;
    }
    walk->stopped = !walk->listing->take(walk->listing->argument, line, length);
    memcpy(walk->last, line, id);
    walk->last[id] = '\0';
    return !walk->stopped;
}

/* The first line must be the one we know: a stream with other columns is not understood. */
static bool end_line(struct walk *walk)
{
    size_t length = walk->length;
    if (length > 0 && walk->line[length - 1] == '\r')
        length--;
    walk->line[length] = '\0';
    walk->length = 0;
    if (walk->header_seen)
        return take_line(walk, walk->line, length);
    walk->header_seen = true;
    walk->malformed = strcmp(walk->line, LISTING_HEADER) != 0;
    return !walk->malformed;
}

static bool take_piece(void *argument, const char *piece, size_t length)
{
    struct walk *walk = argument;
    while (length > 0) {
        const char *newline = memchr(piece, '\n', length);
        size_t part = newline ? (size_t)(newline - piece) : length;
        if (walk->length + part >= LINE_SIZE) {
            walk->malformed = true;
            return false;
        }
        memcpy(walk->line + walk->length, piece, part);
        walk->length += part;
        if (newline && !end_line(walk))
            return false;
        part += newline ? 1 : 0;
        piece += part;
        length -= part;
    }
    return true;
}

/* ---- pages ---- */

static void write_path(const struct walk *walk, const char *call, bool page, char path_out[])
{
    const struct listing *listing = walk->listing;
    int length = snprintf(path_out, PATH_SIZE, "%s?", call);
    if (listing->sku)
        length += snprintf(path_out + length, PATH_SIZE - (size_t)length, "sku=%s&", listing->sku);
    if (listing->status)
        length +=
            snprintf(path_out + length, PATH_SIZE - (size_t)length, "status=%s&", listing->status);
    if (page && walk->last[0] != '\0')
        length += snprintf(path_out + length, PATH_SIZE - (size_t)length, "after=%s&", walk->last);
    if (page)
        length += snprintf(path_out + length, PATH_SIZE - (size_t)length, "limit=1000&");
    path_out[length - 1] = '\0'; /* the last & or ? */
}

/* Hands over one order of a page as a line. */
static bool take_order(struct walk *walk, const json_t *order)
{
    char line[LINE_SIZE], field[CSV_USER_SIZE];
    const char *user = answer_text(order, "user_id");
    walk->malformed = strlen(user) >= USER_ID_SIZE;
    if (walk->malformed)
        return false;
    int length = snprintf(line, sizeof line, "%s,%s,%s,%lld,%lld,%s,%s,%s,%lld",
                          answer_text(order, "order_id"), answer_text(order, "sku"),
                          csv_user(user, field), (long long)answer_integer(order, "qty"),
                          (long long)answer_integer(order, "segment"), answer_text(order, "status"),
                          answer_text(order, "created_at"), answer_text(order, "expires_at"),
                          (long long)answer_integer(order, "round"));
    walk->malformed = length < 0 || length >= LINE_SIZE;
    return !walk->malformed && take_line(walk, line, (size_t)length);
}

/* `next` names where the following page begins, also when this one is short or empty. */
static bool take_page(struct walk *walk, const json_t *page, bool *more_out)
{
    size_t i;
    const json_t *order, *orders = json_object_get(page, "orders");
    const char *next = json_string_value(json_object_get(page, "next"));
    *more_out = next != NULL;
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
    return true;
}

/* Tries a page anew until the time-out has passed, as a daemon may just be restarting. */
static int read_page(struct walk *walk, bool *more_out)
{
    char path[PATH_SIZE];
    struct reply reply;
    int64_t timeout_s = 0;
    options_number(&walk->context->options, OPTION_TIMEOUT, 1, TIMEOUT_S_MAX, TIMEOUT_S,
                   &timeout_s);
    int64_t until_ns = clock_now_ns() + timeout_s * CLOCK_NS_PER_S;
    write_path(walk, "/admin/orders", true, path);
    struct call call = {.class = CLASS_ADMIN, .method = "GET", .path = path};
    http_call(walk->context->http, &call, &reply);
    while (reply.outcome == OUTCOME_FAILED && clock_now_ns() < until_ns) {
        reply_free(&reply);
        clock_sleep_ns(PAUSE_MS * CLOCK_NS_PER_MS);
        http_call(walk->context->http, &call, &reply);
    }
    int status = answer_check(walk->context, &reply, NULL);
    if (status == EX_OK && !take_page(walk, reply.json, more_out))
        *more_out = false;
    reply_free(&reply);
    return status;
}

static int walk_pages(struct walk *walk)
{
    bool more = true;
    int status = EX_OK;
    walk->length = 0; /* half a line of the stream comes again in whole */
    while (status == EX_OK && more)
        status = read_page(walk, &more);
    if (status != EX_OK && walk->last[0] != '\0')
        say("all orders up to %s were read; --after %s goes on", walk->last, walk->last);
    return status;
}

int listing_walk(struct context *context, const struct listing *listing)
{
    struct walk walk = {.context = context, .listing = listing};
    struct reply reply = {.outcome = OUTCOME_OK};
    char path[PATH_SIZE];
    int status = EX_OK;
    if (listing->after) {
        snprintf(walk.last, sizeof walk.last, "%s", listing->after);
        status = walk_pages(&walk);
    } else {
        write_path(&walk, "/admin/orders.csv", false, path);
        struct call call = {.class = CLASS_ADMIN, .method = "GET", .path = path};
        http_stream(context->http, &call, take_piece, &walk, &reply);
        /* A stream that ends well has its first line, and the whole of its last one. */
        walk.malformed |= reply.outcome == OUTCOME_OK && (!walk.header_seen || walk.length > 0);
        if (!walk.stopped && !walk.malformed && walk.header_seen &&
            reply.outcome == OUTCOME_FAILED) {
            say("the stream broke; going on page by page");
            status = walk_pages(&walk);
        } else if (reply.outcome != OUTCOME_OK && !walk.stopped && !walk.malformed) {
            status = answer_failure(context, &reply, NULL);
        }
    }
    reply_free(&reply);
    if (!walk.malformed)
        return status;
    say("the listing is not of the form that this program knows");
    return EX_PROTOCOL;
}
