/* Compares orders, units sold, Redis, and units counted for users: seckillctl audit and reconcile.
 *
 *   each sale, with the units of its users ─► sums of all orders ─► ids and payments, with a file
 *     ─► each sale again ─► compare ─► repeat all while the sales moved in between
 *
 * why_again: pages of sums are not a snapshot. Report a difference only if two readings show it and
 * no fence changed: every change of a sale's units moves a fence. */
#include "ctl/commands/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "ctl/http.h"
#include "ctl/output/answer.h"
#include "ctl/commands/audit_read.h"
#include "ctl/commands/sale.h"
#include "ctl/output/table.h"
#include "ctl/pods.h"

enum {
    WAIT_S = 10,
    WAIT_S_MAX = 86400,
    PAUSE_MS = 200,
    TEXT_SIZE = 256,
    STEADY_TRIES = 2, /* readings that must show a difference */
};

/* ---- reading ---- */

/* EX_OK: compared, with or without differences. Repeats a reading without movement even when the
 * time is over, because one alone shows nothing. */
static int read_until_steady(struct audit *audit, int64_t wait_s)
{
    int64_t until_ns = clock_now_ns() + wait_s * CLOCK_NS_PER_S;
    int steady = 0;
    for (;;) {
        int status = audit_read(audit);
        if (status == EX_OK)
            audit_compare(audit);
        steady = audit->moved ? 0 : steady + 1;
        if (status != EX_OK || json_array_size(audit->differences) == 0 || steady == STEADY_TRIES ||
            (steady == 0 && clock_now_ns() >= until_ns))
            return status;
        clock_sleep_ns(PAUSE_MS * CLOCK_NS_PER_MS);
    }
}

/* ---- Redis ---- */

/* Sends POST /admin/reconcile. EX_OK with the report, which the caller releases; else the exit
 * status after a message. */
static int reconcile_sale(struct context *context, const char *sku, json_t **report_out)
{
    struct reply reply;
    json_t *body = json_pack("{s:s}", "sku", sku);
    struct call call = {
        .class = CLASS_ADMIN, .method = "POST", .path = "/admin/reconcile", .body = body};
    int status = answer_ask(context, &call, &reply);
    json_decref(body);
    *report_out = NULL;
    if (status != EX_OK)
        return status;
    *report_out = json_incref(reply.json);
    reply_free(&reply);
    return EX_OK;
}

/* Notes a segment that was set again; the report has already told the difference. */
static void note_recovered(struct audit *audit, const char *sku, const json_t *row)
{
    json_array_append_new(
        audit->recovered,
        json_sprintf("%s: segment %lld: %s in Redis, which had %lld left, the ledger %lld", sku,
                     answer_integer(row, "segment"), answer_text(row, "reason"),
                     answer_integer(row, "redis_available"),
                     answer_integer(row, "ledger_available")));
}

static int reconcile_all(struct audit *audit)
{
    int status = EX_OK;
    for (size_t i = 0; i < audit->sale_count && status == EX_OK; i++) {
        json_t *report = NULL;
        size_t j;
        const json_t *row;
        config_use_pod(&audit->context->config, audit->sales[i].pod);
        status = reconcile_sale(audit->context, audit->sales[i].sku, &report);
        json_array_foreach(json_object_get(report, "differences"), j, row)
        {
            note_recovered(audit, audit->sales[i].sku, row);
        }
        json_decref(report);
    }
    return status;
}

static void print_reconciled(const char *sku, const json_t *report)
{
    static const struct column columns[] = {
        {"segment", "segment", CELL_NUMBER},
        {"reason", "reason", CELL_TEXT},
        {"in Redis", "redis_available", CELL_NUMBER},
        {"in the ledger", "ledger_available", CELL_NUMBER},
    };
    const json_t *rows = json_object_get(report, "differences");
    if (json_array_size(rows) > 0)
        TABLE_PRINT(columns, rows);
    printf("%s, round %lld: %zu of %lld segments differed, %lld were corrected\n", sku,
           answer_integer(report, "round"), json_array_size(rows),
           answer_integer(report, "segments"), answer_integer(report, "repaired"));
}

int reconcile_run(struct context *context)
{
    json_t *report = NULL;
    const char *sku = sale_argument(context, 1);
    int status = sku ? reconcile_sale(context, sku, &report) : EX_USAGE;
    if (status != EX_OK)
        return status;
    if (has_option(context, OPTION_JSON))
        answer_print(context, report);
    else
        print_reconciled(sku, report);
    if (!json_is_true(json_object_get(report, "consistent")))
        status =
            REFUSE(EX_REFUSED, "Redis was lost meanwhile, or a lease ran out: repeat the call");
    json_decref(report);
    return status;
}

/* ---- the report ---- */

/* Adds the units left according to Redis only for readers. */
static json_t *pack_sale(const struct audit_sale *sale, const struct context *context)
{
    json_t *segments = json_deep_copy(json_object_get(sale->head, "segments")), *segment;
    json_int_t total = answer_integer(sale->head, "total");
    json_int_t sold = answer_integer(sale->head, "sold"), in_redis = 0;
    size_t i;
    json_array_foreach(segments, i, segment)
    {
        json_int_t capacity = answer_integer(segment, "capacity");
        json_object_set_new(segment, "available",
                            json_integer(capacity - answer_integer(segment, "sold")));
        in_redis += answer_integer(json_object_get(segment, "redis"), "available");
    }
    json_t *pod = context->config.pod_count > 1 ? json_integer((json_int_t)sale->pod) : NULL;
    json_t *left = has_option(context, OPTION_JSON) ? NULL : json_integer(in_redis);
    json_t *states = json_pack("{s:I, s:I, s:I, s:I, s:I}", "reserved", sale->reserved, "paid",
                               sale->paid, "cancelled", sale->cancelled, "expired", sale->expired,
                               "refunded", sale->refunded);
    json_t *payments =
        json_pack("{s:I, s:I, s:I, s:I}", "taken", sale->taken, "refund_due", sale->refund_due,
                  "refunded", sale->paid_back, "failed", sale->failed);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:o, s:o*, s:o*}",
                     "sku", sale->sku, "round", sale->round, "total", total, "sold", sold,
                     "available", total - sold, "orders", sale->reserved + sale->paid, "ordered",
                     sale->units, "unreturned", sale->unreturned, "states", states, "payments",
                     payments, "unmatched", sale->unmatched, "segments", segments, "pod", pod,
                     "in_redis", left);
}

static void print_lines(const json_t *lines, const char *before)
{
    size_t i;
    const json_t *line;
    char text[2 * TEXT_SIZE];
    json_array_foreach(lines, i, line)
    {
        snprintf(text, sizeof text, "%s", json_string_value(line));
        say_clean(text); /* parts of the text come from the service */
        printf("%s: %s\n", before, text);
    }
}

static void print_payments(const struct audit *audit)
{
    json_int_t taken = 0, refund_due = 0, paid_back = 0, failed = 0;
    for (size_t i = 0; i < audit->sale_count; i++) {
        taken += audit->sales[i].taken;
        refund_due += audit->sales[i].refund_due;
        paid_back += audit->sales[i].paid_back;
        failed += audit->sales[i].failed;
    }
    if (taken + refund_due + paid_back + failed > 0)
        printf("payments: %lld taken, %lld refund_due, %lld refunded, %lld failed\n", taken,
               refund_due, paid_back, failed);
}

static void print_report(const struct audit *audit, const json_t *sales, const char *verdict)
{
    static const struct column columns[] = {
        {"pod", "pod", CELL_NUMBER},
        {"sku", "sku", CELL_TEXT},
        {"round", "round", CELL_NUMBER},
        {"total", "total", CELL_NUMBER},
        {"sold", "sold", CELL_NUMBER},
        {"in orders", "ordered", CELL_NUMBER},
        {"left", "available", CELL_NUMBER},
        {"in Redis", "in_redis", CELL_NUMBER},
        {"reserved", "states.reserved", CELL_NUMBER},
        {"paid", "states.paid", CELL_NUMBER},
        {"cancelled", "states.cancelled", CELL_NUMBER},
        {"expired", "states.expired", CELL_NUMBER},
        {"refunded", "states.refunded", CELL_NUMBER},
        {"unreturned", "unreturned", CELL_NUMBER},
    };
    size_t hidden = audit->context->config.pod_count > 1 ? 0 : 1; /* the column of the pod */
    table_print(columns + hidden, sizeof columns / sizeof columns[0] - hidden, sales, stdout);
    print_payments(audit);
    if (has_option(audit->context, OPTION_PAYMENTS))
        printf("payments that agree with the file: %zu\n", audit->payments.agreed);
    if (json_object_size(audit->acked) > 0)
        printf("orders that clients saw accepted: %zu\n", json_object_size(audit->acked));
    print_lines(audit->awaiting, "awaits recovery");
    print_lines(audit->recovered, "recovered");
    print_lines(audit->differences, "difference");
    printf("verdict: %s\n", verdict);
}

/* Prints the report. EX_OK: consistent. EX_REFUSED: a difference. EX_TEMPFAIL: the sales never
 * stood still. */
static int report(const struct audit *audit)
{
    bool consistent = json_array_size(audit->differences) == 0;
    bool unclear = !consistent && audit->moved;
    json_t *sales = json_array();
    for (size_t i = 0; i < audit->sale_count; i++)
        json_array_append_new(sales, pack_sale(&audit->sales[i], audit->context));
    json_t *agreed = has_option(audit->context, OPTION_PAYMENTS)
                         ? json_integer((json_int_t)audit->payments.agreed)
                         : NULL;
    json_t *all =
        json_pack("{s:o, s:o*, s:I, s:I, s:O, s:O, s:O, s:b, s:b}", "sales", sales,
                  "payments_agreed", agreed, "acked", (json_int_t)json_object_size(audit->acked),
                  "repeated", (json_int_t)json_object_size(audit->repeated), "differences",
                  audit->differences, "awaiting", audit->awaiting, "recovered", audit->recovered,
                  "steady", !audit->moved, "consistent", consistent);
    if (has_option(audit->context, OPTION_JSON))
        answer_print_all(all);
    else
        print_report(audit, sales,
                     consistent ? "consistent"
                     : unclear  ? "unclear"
                                : "NOT CONSISTENT");
    json_decref(all);
    if (!unclear)
        return consistent ? EX_OK : EX_REFUSED;
    return REFUSE(EX_TEMPFAIL,
                  "the sale moved while it was read: pause it, or try again with a longer --wait");
}

/* ---- what to audit ---- */

/* Adds a sale of the present pod. */
static void add_sale(struct audit *audit, const char *sku)
{
    if (audit_find(audit, sku))
        return;
    audit->sales =
        memory_must(realloc(audit->sales, (audit->sale_count + 1) * sizeof *audit->sales));
    audit->sales[audit->sale_count++] =
        (struct audit_sale){.sku = sku, .pod = audit->context->config.pod};
}

/* Adds a sale that the command line names. With one pod, reading it will show whether it exists. */
static int add_named(struct audit *audit, size_t number)
{
    struct context *context = audit->context;
    const char *sku = sale_argument(context, number);
    bool several = context->pods_end - context->pods_begin > 1;
    int status = !sku ? EX_USAGE : several ? pods_find_sku(context, sku, true) : EX_OK;
    if (status == EX_OK)
        add_sale(audit, sku);
    return status;
}

/* Adds all sales of the present pod; `all` owns the texts of their skus. */
static int add_all(struct audit *audit, json_t *all)
{
    json_t *sales = NULL;
    size_t i;
    const json_t *sale;
    int status = sale_read_all(audit->context, &sales);
    json_array_foreach(sales, i, sale)
    {
        add_sale(audit, answer_text(sale, "sku"));
    }
    if (sales)
        json_array_append_new(all, sales);
    return status;
}

/* Adds the named skus, or all. */
static int choose_sales(struct audit *audit, json_t *all)
{
    struct context *context = audit->context;
    int status = EX_OK;
    for (size_t i = 1; i < context->options.argument_count && status == EX_OK; i++)
        status = add_named(audit, i);
    if (context->options.argument_count > 1)
        return status;
    for (size_t pod = context->pods_begin; pod < context->pods_end && status == EX_OK; pod++) {
        config_use_pod(&context->config, pod);
        status = add_all(audit, all);
    }
    return status;
}

static int run(struct audit *audit, int64_t wait_s)
{
    json_t *all = json_array();
    const char *path = audit->context->options.values[OPTION_ACKED];
    const char *payments = audit->context->options.values[OPTION_PAYMENTS];
    int status = path && !audit_read_acked(audit, path) ? EX_NOINPUT : EX_OK;
    if (payments && !payment_file_read(&audit->payments, audit->context, payments))
        status = EX_NOINPUT;
    status = status == EX_OK ? choose_sales(audit, all) : status;
    status = status == EX_OK ? read_until_steady(audit, wait_s) : status;
    if (status == EX_OK && has_option(audit->context, OPTION_RECONCILE))
        status = reconcile_all(audit);
    if (status == EX_OK)
        status = report(audit);
    for (size_t i = 0; i < audit->sale_count; i++)
        json_decref(audit->sales[i].head);
    json_decref(all);
    return status;
}

int audit_run(struct context *context)
{
    int64_t wait_s = 0;
    if (!options_number(&context->options, OPTION_WAIT, 0, WAIT_S_MAX, WAIT_S, &wait_s))
        return EX_USAGE;
    struct audit audit = {.context = context,
                          .acked = json_object(),
                          .repeated = json_object(),
                          .missing = json_object(),
                          .differences = json_array(),
                          .awaiting = json_array(),
                          .recovered = json_array()};
    int status = run(&audit, wait_s);
    free(audit.sales);
    payment_file_free(&audit.payments);
    json_decref(audit.acked);
    json_decref(audit.repeated);
    json_decref(audit.missing);
    json_decref(audit.differences);
    json_decref(audit.awaiting);
    json_decref(audit.recovered);
    return status;
}
