/* Lists the payments that the service has been told of: seckillctl payments. */
#include "ctl/commands/commands.h"

#include <inttypes.h>
#include <stdio.h>

#include "ctl/commands/sale.h"
#include "ctl/http.h"
#include "ctl/output/answer.h"
#include "ctl/output/table.h"

enum { PATH_SIZE = 256 };

static void print_payments(json_t *payments)
{
    static const struct column columns[] = {
        {"order", "order_id", CELL_NUMBER}, {"payment", "payment_ref", CELL_TEXT},
        {"state", "state", CELL_TEXT},      {"outcome", "outcome", CELL_TEXT},
        {"sku", "sku", CELL_TEXT},          {"round", "round", CELL_NUMBER},
        {"user", "user_id", CELL_TEXT},     {"order is", "order_status", CELL_TEXT},
        {"told at", "told_at", CELL_TEXT},  {"refunded at", "refunded_at", CELL_TEXT},
    };
    TABLE_PRINT(columns, payments);
}

int payments_run(struct context *context)
{
    char path[PATH_SIZE];
    const char *sku = argument(context, 1), *state = context->options.values[OPTION_STATE];
    int64_t order = 0; /* 0: of all orders */
    struct pages pages = {.class = CLASS_ADMIN, .path = path};
    if ((sku && !sale_identifier(sku, "the sku")) ||
        (state && !sale_identifier(state, "--state")) ||
        !options_number(&context->options, OPTION_ORDER, 1, INT64_MAX, 0, &order))
        return EX_USAGE;
    int length =
        snprintf(path, sizeof path, "/admin/payments?limit=1000%s%s%s%s", sku ? "&sku=" : "",
                 sku ? sku : "", state ? "&state=" : "", state ? state : "");
    if (order > 0)
        sprintf(path + length, "&order_id=%" PRId64, order);
    return answer_list(context, &pages, "payments", print_payments);
}
