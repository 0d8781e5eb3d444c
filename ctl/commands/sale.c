/* Reads sales from the service, and describes them for readers. */
#include "ctl/commands/sale.h"

#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/identifier.h"
#include "ctl/commands/commands.h"
#include "ctl/output/answer.h"
#include "ctl/output/say.h"
#include "ctl/output/table.h"

enum { PATH_SIZE = 160, TIME_SIZE = 32, BAR_LEVELS = 8, BAR_SEGMENTS_MAX = 64 };

bool sale_identifier(const char *text, const char *what)
{
    if (identifier_valid(text, strlen(text)))
        return true;
    return REFUSE(false, "%s must be 1 to 64 characters out of A-Z a-z 0-9 . _ : -", what);
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
    return answer_get(context, path, reply_out);
}

static int take_sales(void *argument, json_t *page)
{
    json_array_extend(argument, json_object_get(page, "sales"));
    return EX_OK;
}

int sale_read_all(struct context *context, json_t **sales_out)
{
    *sales_out = json_array();
    struct pages pages = {.class = CLASS_ADMIN,
                          .path = "/admin/sales?limit=1000",
                          .take = take_sales,
                          .argument = *sales_out};
    int status = answer_pages(context, &pages);
    if (status != EX_OK) {
        json_decref(*sales_out);
        *sales_out = NULL;
    }
    return status;
}

/* Writes the present time in the service's form, whose times sort as texts. */
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

void sale_print(json_t *sales)
{
    static const struct column columns[] = {
        {"sku", "sku", CELL_TEXT},
        {"round", "round", CELL_NUMBER},
        {"state", "state", CELL_TEXT},
        {"total", "total", CELL_NUMBER},
        {"sold", "sold", CELL_NUMBER},
        {"left", "available", CELL_NUMBER},
        {"limit", "per_user_limit", CELL_NUMBER},
        {"pay within", "pay_within_s", CELL_SECONDS},
        {"grace", "grace_s", CELL_SECONDS},
        {"hold max", "hold_max_s", CELL_SECONDS},
        {"late payment", "late_payment", CELL_TEXT},
        {"starts at", "starts_at", CELL_TEXT},
        {"ends at", "ends_at", CELL_TEXT},
    };
    size_t i;
    json_t *sale;
    json_array_foreach(sales, i, sale)
    {
        json_object_set_new(sale, "state", json_string(sale_state(sale)));
    }
    TABLE_PRINT(columns, sales);
}

/* ---- the bar ---- */

/* A segment with units left never looks empty. */
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

void sale_add_bar(json_t *stock)
{
    const json_t *segments = json_object_get(stock, "segments");
    char bar[BAR_SEGMENTS_MAX * 4 + 1] = "";
    size_t count = json_array_size(segments), length = 0;
    size_t group = (count + BAR_SEGMENTS_MAX - 1) / BAR_SEGMENTS_MAX;
    for (size_t i = 0; i < count; i += group) {
        json_int_t left = 0, capacity = 0;
        for (size_t j = i; j < i + group && j < count; j++) {
            left += answer_integer(json_array_get(segments, j), "available");
            capacity += answer_integer(json_array_get(segments, j), "capacity");
        }
        length +=
            (size_t)snprintf(bar + length, sizeof bar - length, "%s", bar_part(left, capacity));
    }
    json_object_set_new(stock, "bar", json_string(bar));
}

/* ---- the commands ---- */

int sales_run(struct context *context)
{
    json_t *sales = NULL;
    int status = sale_read_all(context, &sales);
    if (status != EX_OK)
        return status;
    if (has_option(context, OPTION_JSON)) {
        json_t *all = json_pack("{s:O}", "sales", sales);
        answer_print(context, all);
        json_decref(all);
    } else {
        sale_print(sales);
    }
    json_decref(sales);
    return EX_OK;
}

int sales_stock(struct context *context)
{
    static const struct column columns[] = {
        {"segment", "segment", CELL_NUMBER},
        {"capacity", "capacity", CELL_NUMBER},
        {"sold", "sold", CELL_NUMBER},
        {"left", "available", CELL_NUMBER},
    };
    struct reply reply;
    const char *sku = sale_argument(context, 1);
    int status = sku ? sale_read(context, sku, &reply) : EX_USAGE;
    if (status != EX_OK)
        return status;
    answer_print_row(context, reply.json, sale_print);
    if (!has_option(context, OPTION_JSON)) {
        sale_add_bar(reply.json);
        printf("\nleft of each segment: %s\n\n", answer_text(reply.json, "bar"));
        TABLE_PRINT(columns, json_object_get(reply.json, "segments"));
    }
    reply_free(&reply);
    return EX_OK;
}
