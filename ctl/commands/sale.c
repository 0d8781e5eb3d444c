/* Sales as the service shows them: read, and described for readers. */
#include "ctl/commands/sale.h"

#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/identifier.h"
#include "ctl/output/answer.h"
#include "ctl/output/say.h"

enum { PATH_SIZE = 160, TIME_SIZE = 32, BAR_LEVELS = 8 };

bool sale_identifier(const char *text, const char *what)
{
    if (identifier_valid(text, strlen(text)))
        return true;
    say("%s must be 1 to 64 characters out of A-Z a-z 0-9 . _ : -", what);
    return false;
}

const char *sale_argument(const struct context *context, size_t number)
{
    const char *sku = argument(context, number);
    return sku && sale_identifier(sku, "the sku") ? sku : NULL;
}

int sale_read(struct context *context, const char *sku, struct reply *reply_out)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "/admin/stock/%s", sku);
    struct call call = {.class = CLASS_ADMIN, .method = "GET", .path = path};
    http_call(context->http, &call, reply_out);
    int status = answer_check(context, reply_out, NULL);
    if (status != EX_OK)
        reply_free(reply_out);
    return status;
}

/* Adds a page to the sales; `after` is then where the next one begins, "" behind the last. */
static int read_page(struct context *context, json_t *sales, char after[IDENTIFIER_SIZE])
{
    char path[PATH_SIZE];
    struct reply reply;
    snprintf(path, sizeof path, "/admin/sales?limit=1000%s%s", after[0] ? "&after=" : "", after);
    struct call call = {.class = CLASS_ADMIN, .method = "GET", .path = path};
    http_call(context->http, &call, &reply);
    int status = answer_check(context, &reply, NULL);
    if (status == EX_OK) {
        const char *next = answer_text(reply.json, "next");
        json_array_extend(sales, json_object_get(reply.json, "sales"));
        identifier_copy(next, strlen(next), after);
    }
    reply_free(&reply);
    return status;
}

int sale_read_all(struct context *context, json_t **sales_out)
{
    char after[IDENTIFIER_SIZE] = "";
    json_t *sales = json_array();
    int status = read_page(context, sales, after);
    while (status == EX_OK && after[0] != '\0')
        status = read_page(context, sales, after);
    *sales_out = status == EX_OK ? sales : NULL;
    if (status != EX_OK)
        json_decref(sales);
    return status;
}

/* Times of the service sort as texts; they all have this form. */
static void write_now(char text_out[TIME_SIZE])
{
    struct tm utc;
    int64_t ms = clock_wall_ms();
    time_t seconds = (time_t)(ms / 1000);
    gmtime_r(&seconds, &utc);
    size_t length = strftime(text_out, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text_out + length, TIME_SIZE - length, ".%03dZ", (int)(ms % 1000));
}

const char *sale_state(const json_t *sale)
{
    char now[TIME_SIZE];
    const char *starts = answer_text(sale, "starts_at"), *ends = answer_text(sale, "ends_at");
    write_now(now);
    if (json_is_true(json_object_get(sale, "paused")))
        return "paused";
    if (*ends && strcmp(ends, now) <= 0)
        return "ended";
    if (*starts && strcmp(starts, now) > 0)
        return "not started";
    if (json_is_true(json_object_get(sale, "counting")))
        return "counting";
    return answer_integer(sale, "available") > 0 ? "open" : "sold out";
}

void sale_table_begin(struct table *table_out)
{
    static const struct column columns[] = {
        {"sku", false},       {"round", true},    {"state", false}, {"total", true},
        {"sold", true},       {"left", true},     {"limit", true},  {"pay within", true},
        {"starts at", false}, {"ends at", false},
    };
    table_begin(table_out, columns, sizeof columns / sizeof columns[0]);
}

static void add_limit(struct table *table, const json_t *sale, const char *name, const char *unit)
{
    json_int_t number = answer_integer(sale, name);
    if (number > 0)
        table_add(table, "%lld%s", (long long)number, unit);
    else
        table_add(table, "-");
}

static void add_time(struct table *table, const json_t *sale, const char *name)
{
    const char *text = answer_text(sale, name);
    table_add(table, "%s", *text ? text : "-");
}

void sale_table_add(struct table *table, const json_t *sale)
{
    table_add(table, "%s", answer_text(sale, "sku"));
    table_add(table, "%lld", (long long)answer_integer(sale, "round"));
    table_add(table, "%s", sale_state(sale));
    table_add(table, "%lld", (long long)answer_integer(sale, "total"));
    table_add(table, "%lld", (long long)answer_integer(sale, "sold"));
    table_add(table, "%lld", (long long)answer_integer(sale, "available"));
    add_limit(table, sale, "per_user_limit", "");
    add_limit(table, sale, "pay_within_s", " s");
    add_time(table, sale, "starts_at");
    add_time(table, sale, "ends_at");
}

/* A segment with anything left never looks empty. */
static const char *bar_part(json_int_t left, json_int_t capacity)
{
    static const char *const blocks[] = {"\u00b7", "\u2581", "\u2582", "\u2583", "\u2584",
                                         "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char *const digits[] = {".", "1", "2", "3", "4", "5", "6", "7", "8"};
    bool utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    json_int_t level = capacity > 0 ? (left * BAR_LEVELS + capacity - 1) / capacity : 0;
    level = level < 0 ? 0 : level > BAR_LEVELS ? BAR_LEVELS : level;
    return utf8 ? blocks[level] : digits[level];
}

void sale_bar(const json_t *stock, char bar_out[BAR_SIZE])
{
    const json_t *segments = json_object_get(stock, "segments");
    size_t count = json_array_size(segments), length = 0;
    size_t group = (count + BAR_SEGMENTS_MAX - 1) / BAR_SEGMENTS_MAX;
    bar_out[0] = '\0';
    for (size_t i = 0; i < count; i += group) {
        json_int_t left = 0, capacity = 0;
        for (size_t j = i; j < i + group && j < count; j++) {
            left += answer_integer(json_array_get(segments, j), "available");
            capacity += answer_integer(json_array_get(segments, j), "capacity");
        }
        length +=
            (size_t)snprintf(bar_out + length, BAR_SIZE - length, "%s", bar_part(left, capacity));
    }
}
