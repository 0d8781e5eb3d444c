/* seckillctl reconcile: Redis compared with the ledger, and corrected. */
#include "ctl/commands/reconcile.h"

#include <stdio.h>

#include "ctl/output/answer.h"
#include "ctl/http.h"
#include "ctl/commands/commands.h"
#include "ctl/commands/sale.h"
#include "ctl/output/say.h"

int reconcile_sale(struct context *context, const char *sku, json_t **report_out)
{
    struct reply reply;
    json_t *body = json_pack("{s:s}", "sku", sku);
    struct call call = {
        .class = CLASS_ADMIN, .method = "POST", .path = "/admin/reconcile", .body = body};
    http_call(context->http, &call, &reply);
    int status = answer_check(context, &reply, NULL);
    *report_out = status == EX_OK ? json_incref(reply.json) : NULL;
    json_decref(body);
    reply_free(&reply);
    return status;
}

static void print_report(const char *sku, const json_t *report)
{
    static const struct column columns[] = {
        {"segment", true}, {"reason", false}, {"in Redis", true}, {"in the ledger", true}};
    struct table table;
    size_t i;
    const json_t *row, *rows = json_object_get(report, "differences");
    if (json_array_size(rows) > 0) {
        table_begin(&table, columns, sizeof columns / sizeof columns[0]);
        json_array_foreach(rows, i, row)
        {
            const json_t *cached = json_object_get(row, "redis_available");
            table_add(&table, "%lld", (long long)answer_integer(row, "segment"));
            table_add(&table, "%s", answer_text(row, "reason"));
            table_add(&table, json_is_integer(cached) ? "%lld" : "-",
                      (long long)json_integer_value(cached));
            table_add(&table, "%lld", (long long)answer_integer(row, "ledger_available"));
        }
        table_print(&table, stdout);
    }
    printf("%s, round %lld: %zu of %lld segments differed, %lld were corrected\n", sku,
           (long long)answer_integer(report, "round"), json_array_size(rows),
           (long long)answer_integer(report, "segments"),
           (long long)answer_integer(report, "repaired"));
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
        print_report(sku, report);
    if (!json_is_true(json_object_get(report, "consistent"))) {
        say("Redis was lost meanwhile, or a lease ran out: repeat the call");
        status = EX_REFUSED;
    }
    json_decref(report);
    return status;
}
