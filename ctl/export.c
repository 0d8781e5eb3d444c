/* seckillctl export: all orders as CSV, to standard output or a file.
 *
 * why_part: a file gets its name when it is complete, so nobody takes a part for the whole. */
#define _GNU_SOURCE /* asprintf */
#include "ctl/export.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/csv.h"
#include "ctl/listing.h"
#include "ctl/sale.h"
#include "ctl/say.h"

struct export
{
    FILE *out;
    bool json;
    uint64_t count;
    int error; /* errno of a write that failed */
};

/* One order as a line of JSON: numbers as numbers, all but the id, which scripts would round. */
static void print_json(FILE *out, char *line)
{
    static const char *const names[] = {"order_id", "sku",        "user_id",    "qty",  "segment",
                                        "status",   "created_at", "expires_at", "round"};
    static const bool number[] = {false, false, false, true, true, false, false, false, true};
    enum { USER = 2 };
    json_t *order = json_object();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *field = csv_next(&line);
        if (!field || *field == '\0')
            continue;
        json_object_set_new(order, names[i],
                            number[i] ? json_integer(strtoll(field, NULL, 10))
                                      : json_string(i == USER ? csv_user_plain(field) : field));
    }
    json_dumpf(order, out, JSON_COMPACT);
    fputc('\n', out);
    json_decref(order);
}

static bool take(void *argument, const char *line, size_t length)
{
    struct export *export = argument;
    char copy[length + 1];
    memcpy(copy, line, length);
    copy[length] = '\0';
    if (export->json)
        print_json(export->out, copy);
    else
        fprintf(export->out, "%s\r\n", copy);
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
        fputs(LISTING_HEADER "\r\n", export->out);
    int status = listing_walk(context, &listing);
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
    const char *path = options->values[OPTION_OUTPUT];
    return path ? write_file(context, &export, path) : write_orders(context, &export);
}
