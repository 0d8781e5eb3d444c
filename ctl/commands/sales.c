/* seckillctl sales, stock: what is for sale, and what is left of it. */
#include "ctl/commands/commands.h"

#include <stdio.h>

#include "ctl/output/answer.h"
#include "ctl/commands/sale.h"

static void print_sales(const json_t *sales)
{
    struct table table;
    size_t i;
    const json_t *sale;
    sale_table_begin(&table);
    json_array_foreach(sales, i, sale)
    {
        sale_table_add(&table, sale);
    }
    table_print(&table, stdout);
}

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
        print_sales(sales);
    }
    json_decref(sales);
    return EX_OK;
}

static void print_stock(const json_t *stock)
{
    static const struct column columns[] = {
        {"segment", true}, {"capacity", true}, {"sold", true}, {"left", true}};
    struct table table;
    char bar[BAR_SIZE];
    size_t i;
    const json_t *segment;
    sale_table_begin(&table);
    sale_table_add(&table, stock);
    table_print(&table, stdout);
    sale_bar(stock, bar);
    printf("\nleft of each segment: %s\n\n", bar);
    table_begin(&table, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(stock, "segments"), i, segment)
    {
        table_add(&table, "%lld", (long long)answer_integer(segment, "segment"));
        table_add(&table, "%lld", (long long)answer_integer(segment, "capacity"));
        table_add(&table, "%lld", (long long)answer_integer(segment, "sold"));
        table_add(&table, "%lld", (long long)answer_integer(segment, "available"));
    }
    table_print(&table, stdout);
}

int sales_stock(struct context *context)
{
    struct reply reply;
    const char *sku = sale_argument(context, 1);
    int status = sku ? sale_read(context, sku, &reply) : EX_USAGE;
    if (status != EX_OK)
        return status;
    if (has_option(context, OPTION_JSON))
        answer_print(context, reply.json);
    else
        print_stock(reply.json);
    reply_free(&reply);
    return EX_OK;
}
