/* What an audit says in the end. */
#include "ctl/commands/audit_report.h"

#include <inttypes.h>
#include <stdio.h>

#include "ctl/output/answer.h"
#include "ctl/output/say.h"
#include "ctl/output/table.h"

enum { TEXT_SIZE = 256 };

static json_int_t left_of(const json_t *segment)
{
    return answer_integer(segment, "capacity") - answer_integer(segment, "sold");
}

static json_t *pack_sale(const struct audit_sale *sale, bool several_pods)
{
    json_t *segments = json_deep_copy(json_object_get(sale->head, "segments"));
    json_int_t total = answer_integer(sale->head, "total");
    json_int_t sold = answer_integer(sale->head, "sold");
    size_t i;
    json_t *segment;
    json_array_foreach(segments, i, segment)
    {
        json_object_set_new(segment, "available", json_integer(left_of(segment)));
    }
    json_t *pod = several_pods ? json_integer((json_int_t)sale->pod) : NULL;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I, s:I}, s:o, s:o*}",
                     "sku", sale->sku, "round", (json_int_t)sale->round, "total", total, "sold",
                     sold, "available", total - sold, "orders",
                     (json_int_t)sale->reserved + (json_int_t)sale->paid, "ordered",
                     (json_int_t)sale->units, "states", "reserved", (json_int_t)sale->reserved,
                     "paid", (json_int_t)sale->paid, "cancelled", (json_int_t)sale->cancelled,
                     "expired", (json_int_t)sale->expired, "segments", segments, "pod", pod);
}

static void print_json(const struct audit *audit, bool consistent)
{
    json_t *sales = json_array();
    for (size_t i = 0; i < audit->sale_count; i++)
        json_array_append_new(sales,
                              pack_sale(&audit->sales[i], audit->context->config.pod_count > 1));
    json_t *report = json_pack("{s:o, s:I, s:O, s:O, s:O, s:b, s:b}", "sales", sales, "acked",
                               (json_int_t)audit->acked.count, "differences", audit->differences,
                               "awaiting", audit->awaiting, "recovered", audit->recovered, "steady",
                               !audit->moved, "consistent", consistent);
    answer_print(audit->context, report);
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

static json_int_t in_redis(const struct audit_sale *sale)
{
    json_int_t left = 0;
    size_t i;
    const json_t *segment;
    json_array_foreach(json_object_get(sale->head, "segments"), i, segment)
    {
        left += answer_integer(json_object_get(segment, "redis"), "available");
    }
    return left;
}

static void print_report(const struct audit *audit, const char *verdict)
{
    static const struct column columns[] = {
        {"pod", true},      {"sku", false},      {"round", true},     {"total", true},
        {"sold", true},     {"in orders", true}, {"left", true},      {"in Redis", true},
        {"reserved", true}, {"paid", true},      {"cancelled", true}, {"expired", true},
    };
    struct table table;
    bool pods = audit->context->config.pod_count > 1; /* without several, no column for them */
    table_begin(&table, columns + !pods, sizeof columns / sizeof columns[0] - !pods);
    for (size_t i = 0; i < audit->sale_count; i++) {
        const struct audit_sale *sale = &audit->sales[i];
        if (pods)
            table_add(&table, "%zu", sale->pod);
        table_add(&table, "%s", sale->sku);
        table_add(&table, "%" PRId64, sale->round);
        long long total = answer_integer(sale->head, "total");
        long long sold = answer_integer(sale->head, "sold");
        table_add(&table, "%lld", total);
        table_add(&table, "%lld", sold);
        table_add(&table, "%" PRIu64, sale->units);
        table_add(&table, "%lld", total - sold);
        table_add(&table, "%lld", (long long)in_redis(sale));
        table_add(&table, "%" PRIu64, sale->reserved);
        table_add(&table, "%" PRIu64, sale->paid);
        table_add(&table, "%" PRIu64, sale->cancelled);
        table_add(&table, "%" PRIu64, sale->expired);
    }
    table_print(&table, stdout);
    if (audit->acked.count > 0)
        printf("orders that clients saw accepted: %zu\n", audit->acked.count);
    if (audit->acked.repeats > 0)
        printf("of them seen more than once: %zu\n", audit->acked.repeats);
    print_lines(audit->awaiting, "awaits recovery");
    print_lines(audit->recovered, "recovered");
    print_lines(audit->differences, "difference");
    printf("verdict: %s\n", verdict);
}

int audit_report(const struct audit *audit)
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
