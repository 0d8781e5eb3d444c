/* seckillctl status: the daemons, their servers and the sales at a glance. */
#include "ctl/commands/commands.h"

#include <stdio.h>

#include "ctl/output/answer.h"
#include "ctl/commands/daemon.h"
#include "ctl/http.h"
#include "ctl/commands/sale.h"
#include "ctl/output/say.h"

#define ORDERS(outcome) "seckill_orders_total{outcome=\"" outcome "\"}"

static void print_daemons(const struct daemon_state *states, size_t count)
{
    static const struct column columns[] = {
        {"daemon", false},  {"state", false},      {"redis", false},
        {"ledger", false},  {"queue", true},       {"accepted", true},
        {"sold out", true}, {"unavailable", true}, {"unknown", true},
    };
    static const char *const names[] = {"seckill_queue_depth", ORDERS("accepted"),
                                        ORDERS("sold_out"), ORDERS("unavailable"),
                                        ORDERS("outcome_unknown")};
    struct table table;
    table_begin(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < count; i++) {
        table_add(&table, "%s", states[i].address->shown);
        table_add(&table, "%s", states[i].state);
        table_add(&table, "%s", states[i].redis);
        table_add(&table, "%s", states[i].ledger);
        for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
            table_add(&table, states[i].metrics.text ? "%.0f" : "-",
                      metrics_value(&states[i].metrics, names[j]));
    }
    table_print(&table, stdout);
}

static json_t *pack_daemons(const struct daemon_state *states, size_t count)
{
    json_t *daemons = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct metrics *metrics = &states[i].metrics;
        json_array_append_new(
            daemons,
            json_pack("{s:s, s:s, s:s, s:s, s:I, s:{s:I, s:I, s:I, s:I}}", "address",
                      states[i].address->shown, "status", states[i].state, "redis", states[i].redis,
                      "ledger", states[i].ledger, "queue",
                      (json_int_t)metrics_value(metrics, "seckill_queue_depth"), "orders",
                      "accepted", (json_int_t)metrics_value(metrics, ORDERS("accepted")),
                      "sold_out", (json_int_t)metrics_value(metrics, ORDERS("sold_out")),
                      "unavailable", (json_int_t)metrics_value(metrics, ORDERS("unavailable")),
                      "outcome_unknown",
                      (json_int_t)metrics_value(metrics, ORDERS("outcome_unknown"))));
    }
    return daemons;
}

static void print_sales(const json_t *sales)
{
    struct table table;
    size_t i;
    const json_t *sale;
    if (json_array_size(sales) == 0)
        return;
    putchar('\n');
    sale_table_begin(&table);
    json_array_foreach(sales, i, sale)
    {
        sale_table_add(&table, sale);
    }
    table_print(&table, stdout);
}

static bool say_why(const struct daemon_state *states, size_t count)
{
    bool ready = true;
    for (size_t i = 0; i < count; i++) {
        ready = ready && daemon_ready(&states[i]);
        if (states[i].why[0] != '\0')
            say("%s", states[i].why);
    }
    return ready;
}

int status_run(struct context *context)
{
    struct daemon_state states[DAEMONS_MAX];
    size_t count = context->config.admin_count;
    json_t *sales = NULL;
    for (size_t i = 0; i < count; i++)
        daemon_ask(context, &context->config.admin[i], &states[i]);
    bool ready = say_why(states, count);
    bool answered = false;
    for (size_t i = 0; i < count; i++)
        answered = answered || states[i].why[0] == '\0';
    /* The health needs no token, and is worth its lines without the sales. */
    bool wanted = answered && context->config.admin_token[0] != '\0';
    int status = wanted ? sale_read_all(context, &sales) : EX_OK;
    if (has_option(context, OPTION_JSON)) {
        json_t *all =
            json_pack("{s:o, s:O*}", "daemons", pack_daemons(states, count), "sales", sales);
        answer_print(context, all);
        json_decref(all);
    } else {
        print_daemons(states, count);
        print_sales(sales);
    }
    for (size_t i = 0; i < count; i++)
        daemon_free(&states[i]);
    json_decref(sales);
    return !ready ? EX_UNAVAILABLE : status;
}
