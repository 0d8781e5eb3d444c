/* seckillctl audit: orders, units sold and what is left, compared for each segment.
 *
 *   stock of each sale ─► all orders ─► stock again ─► orders of several segments, where in doubt
 *     ─► compare ─► the same again while the sales moved in between ─► Redis, if asked
 *
 * why_again: the listing of orders is no snapshot. A difference counts when the stock stood still
 * around two readings that both show one. */
#include "ctl/audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ctl/acked.h"
#include "ctl/answer.h"
#include "ctl/audit_sale.h"
#include "ctl/csv.h"
#include "ctl/http.h"
#include "ctl/listing.h"
#include "ctl/reconcile.h"
#include "ctl/sale.h"
#include "ctl/say.h"

enum {
    WAIT_S = 10,
    WAIT_S_MAX = 86400,
    PAUSE_MS = 200,
    FIELDS = 9,
    PATH_SIZE = 64,
    TEXT_SIZE = 256,
    STEADY_TRIES = 2, /* that must show a difference */
};

struct audit {
    struct context *context;
    struct audit_sale *sales;
    size_t sale_count;
    struct acked acked;
    bool malformed; /* a line of the listing */
    bool moved;
    json_t *differences;
    json_t *recovered; /* segments that Redis had lost or left dirty */
};

/* ---- reading ---- */

static struct audit_sale *find_sale(struct audit *audit, const char *sku)
{
    for (size_t i = 0; i < audit->sale_count; i++)
        if (strcmp(audit->sales[i].sku, sku) == 0)
            return &audit->sales[i];
    return NULL;
}

/* order_id,sku,user_id,qty,segment,status,created_at,expires_at,round */
static bool take_order(void *argument, const char *line, size_t length)
{
    struct audit *audit = argument;
    char copy[length + 1], *at = copy, *fields[FIELDS] = {NULL};
    int64_t id = 0, qty = 0, segment = 0, round = 0;
    memcpy(copy, line, length + 1);
    for (size_t i = 0; i < FIELDS && at; i++)
        fields[i] = csv_next(&at);
    if (!fields[FIELDS - 1] || at || !number_parse(fields[0], 1, INT64_MAX, &id) ||
        !number_parse(fields[3], 1, UINT32_MAX, &qty) ||
        !number_parse(fields[4], 0, UINT32_MAX, &segment) ||
        !number_parse(fields[8], 1, UINT32_MAX, &round)) {
        audit->malformed = true;
        return false;
    }
    acked_see(&audit->acked, (uint64_t)id);
    struct audit_sale *sale = find_sale(audit, fields[1]);
    struct audit_order order = {(uint64_t)id, (uint32_t)segment, (uint32_t)qty};
    if (sale)
        audit_sale_add(sale, &order, round, fields[5]);
    return true;
}

static int read_stocks(struct audit *audit)
{
    int status = EX_OK;
    for (size_t i = 0; i < audit->sale_count && status == EX_OK; i++) {
        struct reply reply;
        struct audit_sale *sale = &audit->sales[i];
        const char *sku = sale->sku;
        status = sale_read(audit->context, sku, &reply);
        if (status != EX_OK)
            continue;
        audit_sale_free(sale);
        audit_sale_begin(sale, sku, json_incref(reply.json));
        reply_free(&reply);
    }
    return status;
}

/* Reads the stock again, and keeps what it says now: that is what the orders must hold. */
static int read_stocks_again(struct audit *audit)
{
    int status = EX_OK;
    audit->moved = false;
    for (size_t i = 0; i < audit->sale_count && status == EX_OK; i++) {
        struct reply reply;
        struct audit_sale *sale = &audit->sales[i];
        status = sale_read(audit->context, sale->sku, &reply);
        if (status != EX_OK)
            continue;
        audit->moved = audit->moved || audit_sale_moved(sale->stock, reply.json);
        json_decref(sale->stock);
        sale->stock = json_incref(reply.json);
        reply_free(&reply);
    }
    return status;
}

static int read_orders(struct audit *audit)
{
    bool all = audit->sale_count != 1 || audit->acked.count > 0;
    struct listing listing = {
        .sku = all ? NULL : audit->sales[0].sku, .take = take_order, .argument = audit};
    acked_restart(&audit->acked);
    int status = listing_walk(audit->context, &listing);
    if (!audit->malformed)
        return status;
    say("the listing is not of the form that this program knows");
    return EX_PROTOCOL;
}

/* The listing counts an order where its first unit came from; the order itself says the rest. */
static int look_up(struct audit *audit, struct audit_sale *sale, const struct audit_order *order)
{
    char path[PATH_SIZE];
    struct reply reply;
    snprintf(path, sizeof path, "/order/%" PRIu64, order->id);
    struct call call = {.class = CLASS_BUYER, .method = "GET", .path = path};
    http_call(audit->context->http, &call, &reply);
    int status = answer_check(audit->context, &reply, NULL);
    if (status == EX_OK)
        audit_sale_allocate(sale, order, json_object_get(reply.json, "allocations"));
    reply_free(&reply);
    return status;
}

static int look_up_doubts(struct audit *audit)
{
    int status = EX_OK;
    for (size_t i = 0; i < audit->sale_count; i++) {
        struct audit_sale *sale = &audit->sales[i];
        for (size_t j = 0; j < sale->several_count && status == EX_OK; j++)
            if (audit_sale_doubts(sale, &sale->several[j]))
                status = look_up(audit, sale, &sale->several[j]);
    }
    return status;
}

static void compare(struct audit *audit)
{
    uint64_t first = 0;
    char text[TEXT_SIZE];
    json_array_clear(audit->differences);
    for (size_t i = 0; i < audit->sale_count; i++)
        audit_sale_compare(&audit->sales[i], audit->differences);
    size_t missing = acked_missing(&audit->acked, &first);
    if (missing == 0)
        return;
    snprintf(text, sizeof text,
             "%zu orders that clients saw accepted are missing, such as %" PRIu64, missing, first);
    json_array_append_new(audit->differences, json_string(text));
}

static int read_all(struct audit *audit)
{
    int status = read_stocks(audit);
    status = status == EX_OK ? read_orders(audit) : status;
    status = status == EX_OK ? read_stocks_again(audit) : status;
    status = status == EX_OK ? look_up_doubts(audit) : status;
    if (status == EX_OK)
        compare(audit);
    return status;
}

/* EX_OK: compared, whatever the differences. A reading that stood still is repeated also when the
 * time is over, as one alone shows nothing. */
static int read_until_steady(struct audit *audit, int64_t wait_s)
{
    int64_t until_ns = clock_now_ns() + wait_s * CLOCK_NS_PER_S;
    int steady = 0;
    for (;;) {
        int status = read_all(audit);
        steady = audit->moved ? 0 : steady + 1;
        if (status != EX_OK || json_array_size(audit->differences) == 0 || steady == STEADY_TRIES ||
            (steady == 0 && clock_now_ns() >= until_ns))
            return status;
        clock_sleep_ns(PAUSE_MS * CLOCK_NS_PER_MS);
    }
}

/* ---- Redis ---- */

/* A segment that is dirty or missing is one that the service itself would recover before it sells
 * from it; only another number of units is a difference. */
static void judge_redis(struct audit *audit, const char *sku, const json_t *row)
{
    char text[TEXT_SIZE];
    const char *reason = answer_text(row, "reason");
    snprintf(text, sizeof text,
             "%s: segment %lld: %s in Redis, which had %lld left, the ledger %lld", sku,
             (long long)answer_integer(row, "segment"), reason,
             (long long)answer_integer(row, "redis_available"),
             (long long)answer_integer(row, "ledger_available"));
    json_array_append_new(strcmp(reason, "mismatch") == 0 ? audit->differences : audit->recovered,
                          json_string(text));
}

static int compare_redis(struct audit *audit)
{
    int status = EX_OK;
    for (size_t i = 0; i < audit->sale_count && status == EX_OK; i++) {
        json_t *report = NULL;
        size_t j;
        const json_t *row;
        status = reconcile_sale(audit->context, audit->sales[i].sku, &report);
        json_array_foreach(json_object_get(report, "differences"), j, row)
        {
            judge_redis(audit, audit->sales[i].sku, row);
        }
        json_decref(report);
    }
    return status;
}

/* ---- the report ---- */

static json_t *pack_sale(const struct audit_sale *sale)
{
    json_t *segments = json_deep_copy(json_object_get(sale->stock, "segments"));
    size_t i;
    json_t *segment;
    json_array_foreach(segments, i, segment)
    {
        json_object_set_new(segment, "ordered", json_integer((json_int_t)sale->ordered[i]));
    }
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I, s:I}, s:o}", "sku", sale->sku,
        "round", (json_int_t)sale->round, "total", answer_integer(sale->stock, "total"), "sold",
        answer_integer(sale->stock, "sold"), "available", answer_integer(sale->stock, "available"),
        "orders", (json_int_t)sale->orders, "ordered", (json_int_t)sale->units, "states",
        "reserved", (json_int_t)sale->reserved, "paid", (json_int_t)sale->paid, "cancelled",
        (json_int_t)sale->cancelled, "expired", (json_int_t)sale->expired, "segments", segments);
}

static void print_json(const struct audit *audit, bool consistent)
{
    json_t *sales = json_array();
    for (size_t i = 0; i < audit->sale_count; i++)
        json_array_append_new(sales, pack_sale(&audit->sales[i]));
    json_t *report =
        json_pack("{s:o, s:I, s:O, s:O, s:b, s:b}", "sales", sales, "acked",
                  (json_int_t)audit->acked.count, "differences", audit->differences, "recovered",
                  audit->recovered, "steady", !audit->moved, "consistent", consistent);
    answer_print(report);
    json_decref(report);
}

static void print_lines(const json_t *lines, const char *before)
{
    size_t i;
    const json_t *line;
    char text[2 * TEXT_SIZE];
    json_array_foreach(lines, i, line)
    {
        snprintf(text, sizeof text, "%s", json_string_value(line));
        say_clean(text); /* of what the service has said */
        printf("%s: %s\n", before, text);
    }
}

static void print_report(const struct audit *audit, const char *verdict)
{
    static const struct column columns[] = {
        {"sku", false},      {"round", true},   {"total", true},    {"sold", true},
        {"in orders", true}, {"left", true},    {"reserved", true}, {"paid", true},
        {"cancelled", true}, {"expired", true},
    };
    struct table table;
    table_begin(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < audit->sale_count; i++) {
        const struct audit_sale *sale = &audit->sales[i];
        table_add(&table, "%s", sale->sku);
        table_add(&table, "%" PRId64, sale->round);
        table_add(&table, "%lld", (long long)answer_integer(sale->stock, "total"));
        table_add(&table, "%lld", (long long)answer_integer(sale->stock, "sold"));
        table_add(&table, "%" PRIu64, sale->units);
        table_add(&table, "%lld", (long long)answer_integer(sale->stock, "available"));
        table_add(&table, "%" PRIu64, sale->reserved);
        table_add(&table, "%" PRIu64, sale->paid);
        table_add(&table, "%" PRIu64, sale->cancelled);
        table_add(&table, "%" PRIu64, sale->expired);
    }
    table_print(&table, stdout);
    if (audit->acked.count > 0)
        printf("orders that clients saw accepted: %zu\n", audit->acked.count);
    print_lines(audit->recovered, "recovered");
    print_lines(audit->differences, "difference");
    printf("verdict: %s\n", verdict);
}

static int report(const struct audit *audit)
{
    bool differs = json_array_size(audit->differences) > 0;
    bool consistent = !differs, unclear = differs && audit->moved;
    if (has_option(audit->context, OPTION_JSON))
        print_json(audit, consistent);
    else
        print_report(audit, consistent ? "consistent" : unclear ? "unclear" : "NOT CONSISTENT");
    if (!unclear)
        return consistent ? EX_OK : EX_REFUSED;
    say("the sale moved while it was read: pause it, or try again with a longer --wait");
    return EX_TEMPFAIL;
}

/* ---- what to audit ---- */

static void add_sale(struct audit *audit, const char *sku)
{
    if (find_sale(audit, sku))
        return;
    audit->sales = realloc(audit->sales, (audit->sale_count + 1) * sizeof *audit->sales);
    if (!audit->sales)
        abort();
    audit_sale_begin(&audit->sales[audit->sale_count++], sku, NULL);
}

/* The skus that are named, else all; `all` then owns their texts. */
static int choose_sales(struct audit *audit, json_t **all)
{
    size_t i;
    const json_t *sale;
    struct context *context = audit->context;
    for (i = 1; i < context->options.argument_count; i++) {
        const char *sku = sale_argument(context, i);
        if (!sku)
            return EX_USAGE;
        add_sale(audit, sku);
    }
    if (audit->sale_count > 0)
        return EX_OK;
    int status = sale_read_all(context, all);
    json_array_foreach(*all, i, sale)
    {
        add_sale(audit, answer_text(sale, "sku"));
    }
    return status;
}

static int run(struct audit *audit, int64_t wait_s)
{
    json_t *all = NULL;
    const char *path = audit->context->options.values[OPTION_ACKED];
    int status = path && !acked_read(&audit->acked, path) ? EX_NOINPUT : EX_OK;
    status = status == EX_OK ? choose_sales(audit, &all) : status;
    status = status == EX_OK ? read_until_steady(audit, wait_s) : status;
    if (status == EX_OK && has_option(audit->context, OPTION_RECONCILE))
        status = compare_redis(audit);
    if (status == EX_OK)
        status = report(audit);
    for (size_t i = 0; i < audit->sale_count; i++)
        audit_sale_free(&audit->sales[i]);
    json_decref(all);
    return status;
}

int audit_run(struct context *context)
{
    int64_t wait_s = 0;
    if (!options_number(&context->options, OPTION_WAIT, 0, WAIT_S_MAX, WAIT_S, &wait_s))
        return EX_USAGE;
    struct audit audit = {
        .context = context, .differences = json_array(), .recovered = json_array()};
    int status = run(&audit, wait_s);
    free(audit.sales);
    acked_free(&audit.acked);
    json_decref(audit.differences);
    json_decref(audit.recovered);
    return status;
}
