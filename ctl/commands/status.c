/* Shows the daemons, their servers and the sales at a glance: seckillctl status. */
#include <stdio.h>

#include "ctl/commands/commands.h"
#include "ctl/commands/daemon.h"
#include "ctl/commands/sale.h"
#include "ctl/http.h"
#include "ctl/output/answer.h"
#include "ctl/output/table.h"

static void add_orders(json_t *row, const char *metrics)
{
    static const char *const outcomes[] = {"accepted", "sold_out", "unavailable",
                                           "outcome_unknown"};
    json_t *orders = json_object();
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "seckill_orders_total{outcome=\"%s\"}", outcomes[i]);
        json_object_set_new(orders, outcomes[i],
                            json_integer((json_int_t)metrics_value(metrics, name)));
    }
    json_object_set_new(row, "orders", orders);
}

static void ask(struct context *context, const struct address *address, json_t *daemons,
                bool *ready, bool *answered)
{
    struct daemon_state state;
    daemon_ask(context, address, &state);
    json_t *row = daemon_pack(&state);
    if (state.metrics)
        add_orders(row, state.metrics);
    if (state.why[0] != '\0')
        say("%s", state.why);
    *answered = *answered || state.why[0] == '\0';
    *ready = *ready && daemon_ready(&state);
    json_array_append_new(daemons, row);
    daemon_free(&state);
}

static void print(const json_t *daemons, json_t *sales)
{
    static const struct column columns[] = {
        {"daemon", "address", CELL_TEXT},
        {"state", "status", CELL_TEXT},
        {"redis", "redis", CELL_TEXT},
        {"ledger", "ledger", CELL_TEXT},
        {"queue", "queue", CELL_NUMBER},
        {"refunds due", "refunds_due", CELL_NUMBER},
        {"accepted", "orders.accepted", CELL_NUMBER},
        {"sold out", "orders.sold_out", CELL_NUMBER},
        {"unavailable", "orders.unavailable", CELL_NUMBER},
        {"unknown", "orders.outcome_unknown", CELL_NUMBER},
    };
    TABLE_PRINT(columns, daemons);
    if (json_array_size(sales) == 0)
        return;
    putchar('\n');
    sale_print(sales);
}

int status_run(struct context *context)
{
    json_t *daemons = json_array(), *sales = NULL;
    bool ready = true, answered = false;
    for (size_t i = 0; i < context->config.admin_count; i++)
        ask(context, &context->config.admin[i], daemons, &ready, &answered);
    /* The health needs no token, and is worth showing without the sales. */
    bool wanted = answered && context->config.admin_token[0] != '\0';
    int status = wanted ? sale_read_all(context, &sales) : EX_OK;
    json_t *all = json_pack("{s:o, s:o*}", "daemons", daemons, "sales", sales);
    if (has_option(context, OPTION_JSON))
        answer_print(context, all);
    else
        print(daemons, sales);
    json_decref(all);
    return !ready ? EX_UNAVAILABLE : status;
}
