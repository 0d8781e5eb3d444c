/* seckillctl export: all orders as CSV, to standard output or a file.
 *
 * why_part: a file gets its name when it is complete, so nobody takes a part for the whole. */
#define _GNU_SOURCE /* asprintf */
#include "ctl/commands/export.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/identifier.h"
#include "ctl/commands/commands.h"
#include "ctl/http.h"
#include "ctl/output/answer.h"
#include "ctl/commands/sale.h"

/* ---- the walk ---- */

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

/* ---- the file ---- */

enum { USER_FIELD_SIZE = 2 * USER_ID_SIZE + 2 };

struct export
{
    FILE *out;
    bool json;
    uint64_t count;
    int error; /* errno of a write that failed */
};

/* A user id as a field of RFC 4180; no other field may need quotes. A spreadsheet would run one
 * that begins like a formula, so it gets a ' in front; so does one that begins with a ', so that
 * taking one ' away gives every id again. */
static const char *user_field(const char *user_id, char out[USER_FIELD_SIZE])
{
    bool quoted = user_id[strcspn(user_id, "\",")] != '\0';
    char *to = out;
    if (quoted)
        *to++ = '"';
    if (user_id[0] != '\0' && strchr("=+-@'", user_id[0]))
        *to++ = '\'';
    for (const char *from = user_id; *from; from++) {
        if (*from == '"')
            *to++ = '"';
        *to++ = *from;
    }
    if (quoted)
        *to++ = '"';
    *to = '\0';
    return out;
}

static void print_line(FILE *out, const json_t *order)
{
    char user[USER_FIELD_SIZE], user_id[USER_ID_SIZE];
    snprintf(user_id, sizeof user_id, "%s", answer_text(order, "user_id"));
    fprintf(out, "%s,%s,%s,%lld,%lld,%s,%s,%s,%lld\r\n", answer_text(order, "order_id"),
            answer_text(order, "sku"), user_field(user_id, user),
            (long long)answer_integer(order, "qty"), (long long)answer_integer(order, "segment"),
            answer_text(order, "status"), answer_text(order, "created_at"),
            answer_text(order, "expires_at"), (long long)answer_integer(order, "round"));
}

static bool take(void *argument, const json_t *order)
{
    struct export *export = argument;
    if (export->json) {
        json_dumpf(order, export->out, JSON_COMPACT);
        fputc('\n', export->out);
    } else {
        print_line(export->out, order);
    }
    export->count++;
    if (ferror(export->out))
        export->error = errno;
    return !ferror(export->out);
}

static int write_orders(struct context *context, struct export *export)
{
    struct listing listing = {.sku = context->options.values[OPTION_SKU],
                              .status = context->options.values[OPTION_STATUS],
                              .after = context->options.values[OPTION_AFTER],
                              .take = take,
                              .argument = export};
    if (!export->json)
        fputs("order_id,sku,user_id,qty,segment,status,created_at,expires_at,round\r\n",
              export->out);
    int status = EX_OK;
    for (size_t pod = context->pods_begin; pod < context->pods_end && status == EX_OK; pod++) {
        config_use_pod(&context->config, pod);
        status = listing_walk(context, &listing);
    }
    if (fflush(export->out) != 0 && export->error == 0)
        export->error = errno;
    if (export->error == 0)
        return status;
    say("cannot write: %s", strerror(export->error));
    return EX_IOERR;
}

/* On the disk before it has its name. */
static bool finish_file(FILE *file, const char *part, const char *path)
{
    bool written = fflush(file) == 0 && fsync(fileno(file)) == 0;
    written = fclose(file) == 0 && written;
    if (written && rename(part, path) == 0)
        return true;
    say("%s: %s", part, strerror(errno));
    return false;
}

static int write_file(struct context *context, struct export *export, const char *path)
{
    char *part = NULL;
    if (asprintf(&part, "%s.part", path) < 0)
        abort();
    export->out = fopen(part, "we");
    int status = EX_CANTCREAT;
    if (!export->out) {
        say("%s: %s", part, strerror(errno));
    } else {
        status = write_orders(context, export);
        if (status != EX_OK) {
            fclose(export->out);
            say("%s has what has come so far", part);
        } else {
            status = finish_file(export->out, part, path) ? EX_OK : EX_IOERR;
        }
    }
    if (status == EX_OK)
        say("%llu orders in %s", (unsigned long long)export->count, path);
    free(part);
    return status;
}

int export_run(struct context *context)
{
    const struct options *options = &context->options;
    const char *sku = options->values[OPTION_SKU], *status = options->values[OPTION_STATUS];
    int64_t after = 0;
    struct export export = {.out = stdout, .json = has_option(context, OPTION_JSON)};
    if ((sku && !sale_identifier(sku, "--sku")) ||
        (status && !sale_identifier(status, "--status")) ||
        !options_number(options, OPTION_AFTER, 1, INT64_MAX, 0, &after))
        return EX_USAGE;
    if (after > 0 && context->pods_end - context->pods_begin > 1) {
        say("--after needs --pod, as each pod has its own orders");
        return EX_USAGE;
    }
    const char *path = options->values[OPTION_OUTPUT];
    return path ? write_file(context, &export, path) : write_orders(context, &export);
}
