/* Writes all orders as CSV, to standard output or a file: seckillctl export.
 *
 * why_part: a file gets its name when it is complete, so nobody takes a part for all orders. */
#define _GNU_SOURCE /* asprintf */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/identifier.h"
#include "ctl/commands/commands.h"
#include "ctl/http.h"
#include "ctl/output/answer.h"
#include "ctl/commands/sale.h"

/* ---- the walk ---- */

enum { PATH_SIZE = 256 };

/* An order is all printable ASCII: other bytes could control the terminal that shows it. */
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

static int take_page(void *argument, json_t *page)
{
    const struct listing *listing = argument;
    size_t i;
    const json_t *order, *orders = json_object_get(page, "orders");
    int status = json_is_array(orders) ? EX_OK : EX_PROTOCOL;
    json_array_foreach(orders, i, order)
    {
        status = is_order(order) ? listing->take(listing->argument, order) : EX_PROTOCOL;
        if (status != EX_OK)
            return status;
    }
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

int listing_walk(struct context *context, struct listing *listing)
{
    char path[PATH_SIZE];
    const char *sku = listing->sku, *state = listing->status;
    struct pages pages = {.class = CLASS_ADMIN,
                          .path = path,
                          .patient = true,
                          .take = take_page,
                          .argument = listing};
    snprintf(path, sizeof path, "/admin/orders?limit=1000%s%s%s%s", sku ? "&sku=" : "",
             sku ? sku : "", state ? "&status=" : "", state ? state : "");
    snprintf(pages.after, sizeof pages.after, "%s", listing->after ? listing->after : "");
    int status = answer_pages(context, &pages);
    if (status != EX_OK && status != EX_IOERR && pages.after[0] != '\0')
        say_where(context, pages.after);
    return status;
}

/* ---- the file ---- */

struct export
{
    FILE *out;
    bool json;
    bool spreadsheet; /* see print_text */
    uint64_t count;
    int error; /* errno of a write that failed */
};

/* Writes a field of RFC 4180. A spreadsheet would run a user id that begins like a formula, so it
 * gets a ' in front; so does one that begins with a ', so that removing one ' restores every id.
 *
 * why_formulas: a spreadsheet reads 250361722030784512, 00123 and 1e5 as numbers, and loses digits.
 * The formula ="00123" is a text for Excel and LibreOffice, which save it as 00123. */
static void print_text(const struct export *export, const char *text, bool guarded)
{
    bool formula = export->spreadsheet, quoted = formula || text[strcspn(text, "\",")] != '\0';
    fputs(formula ? "\"=\"\"" : quoted ? "\"" : "", export->out);
    if (guarded && !formula && *text != '\0' && strchr("=+-@'", *text))
        fputc('\'', export->out);
    for (; *text; text++)
        if (*text == '"')
            fputs(formula ? "\"\"\"\"" : "\"\"", export->out);
        else
            fputc(*text, export->out);
    fputs(formula ? "\"\"\"," : quoted ? "\"," : ",", export->out);
}

static void print_line(const struct export *export, const json_t *order)
{
    print_text(export, answer_text(order, "order_id"), false);
    print_text(export, answer_text(order, "sku"), false);
    print_text(export, answer_text(order, "user_id"), true);
    fprintf(export->out, "%lld,%lld,%s,%s,%s,%lld\r\n", answer_integer(order, "qty"),
            answer_integer(order, "segment"), answer_text(order, "status"),
            answer_text(order, "created_at"), answer_text(order, "expires_at"),
            answer_integer(order, "round"));
}

static int take(void *argument, const json_t *order)
{
    struct export *export = argument;
    if (export->json) {
        json_dumpf(order, export->out, JSON_COMPACT);
        fputc('\n', export->out);
    } else {
        print_line(export, order);
    }
    export->count++;
    if (ferror(export->out))
        export->error = errno;
    return ferror(export->out) ? EX_IOERR : EX_OK;
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
    return REFUSE(EX_IOERR, "cannot write: %s", strerror(export->error));
}

/* Puts the file on disk before it gets its name. */
static bool finish_file(FILE *file, const char *part, const char *path)
{
    bool written = fflush(file) == 0 && fsync(fileno(file)) == 0;
    written = fclose(file) == 0 && written;
    if (written && rename(part, path) == 0)
        return true;
    return REFUSE(false, "%s: %s", part, strerror(errno));
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
    struct export export = {.out = stdout,
                            .json = has_option(context, OPTION_JSON),
                            .spreadsheet = has_option(context, OPTION_SPREADSHEET)};
    if ((sku && !sale_identifier(sku, "--sku")) ||
        (status && !sale_identifier(status, "--status")) ||
        !options_number(options, OPTION_AFTER, 1, INT64_MAX, 0, &after))
        return EX_USAGE;
    if (after > 0 && context->pods_end - context->pods_begin > 1)
        return REFUSE(EX_USAGE, "--after needs --pod, as each pod has its own orders");
    const char *path = options->values[OPTION_OUTPUT];
    return path ? write_file(context, &export, path) : write_orders(context, &export);
}
