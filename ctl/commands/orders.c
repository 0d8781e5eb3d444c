/* Shows one order, or the orders of one user: seckillctl order, user. */
#include "ctl/commands/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/identifier.h"
#include "ctl/output/answer.h"
#include "ctl/http.h"
#include "ctl/commands/sale.h"
#include "ctl/output/table.h"

enum { PATH_SIZE = 256 + ENCODED_SIZE };

/* ---- printing ---- */

static void print_rows(const json_t *orders)
{
    static const struct column columns[] = {
        {"order", "order_id", CELL_NUMBER},
        {"sku", "sku", CELL_TEXT},
        {"round", "round", CELL_NUMBER},
        {"user", "user_id", CELL_TEXT},
        {"qty", "qty", CELL_NUMBER},
        {"segment", "segment", CELL_NUMBER},
        {"status", "status", CELL_TEXT},
        {"created at", "created_at", CELL_TEXT},
        {"expires at", "expires_at", CELL_TEXT},
    };
    TABLE_PRINT(columns, orders);
}

static void print_order(const struct context *context, json_t *order)
{
    json_t *orders = json_pack("[O]", order);
    if (has_option(context, OPTION_JSON))
        answer_print(context, order);
    else
        print_rows(orders);
    json_decref(orders);
}

/* ---- one order ---- */

/* Shows the order from the operators' listing. */
static int find_listed(struct context *context, int64_t id)
{
    char path[PATH_SIZE], text[32];
    struct reply reply;
    snprintf(text, sizeof text, "%" PRId64, id);
    snprintf(path, sizeof path, "/admin/orders?after=%" PRId64 "&limit=1", id - 1);
    int status = answer_get(context, path, &reply);
    if (status != EX_OK)
        return status;
    json_t *order = json_array_get(json_object_get(reply.json, "orders"), 0);
    if (strcmp(answer_text(order, "order_id"), text) == 0) {
        print_order(context, order);
    } else {
        say("unknown_order: There is no order with this id.");
        status = EX_NOINPUT;
    }
    reply_free(&reply);
    return status;
}

/* The pod in an id need not know the order: an order from before there were pods is in pod 0,
 * whatever its id says. A proxy would ask the wrong pod again, so the listing is asked. */
int orders_one(struct context *context)
{
    char path[PATH_SIZE];
    struct reply reply;
    int64_t id = 0;
    if (!number_parse(argument(context, 1), 1, INT64_MAX, &id)) {
        say("an order id is a whole number");
        return EX_USAGE;
    }
    snprintf(path, sizeof path, "/order/%" PRId64, id);
    struct call call = {.class = CLASS_BUYER, .method = "GET", .path = path};
    http_call(context->http, &call, &reply);
    bool unserved = strcmp(reply.code, "not_found") == 0;
    bool older = context->config.pod > 0 && strcmp(reply.code, "unknown_order") == 0;
    bool listed = (unserved || older) && context->config.admin_token[0];
    if (listed && older)
        config_use_pod(&context->config, 0);
    int status = listed ? find_listed(context, id) : answer_check(context, &reply, NULL);
    if (status == EX_OK && !listed)
        print_order(context, reply.json);
    reply_free(&reply);
    return status;
}

/* ---- the orders of a user ---- */

int orders_of_user(struct context *context)
{
    char path[PATH_SIZE], encoded[ENCODED_SIZE];
    const char *user = argument(context, 1), *sku = context->options.values[OPTION_SKU];
    struct pages pages = {.class = CLASS_SHOP, .path = path};
    if (!user_id_valid(user, strlen(user))) {
        say("a user id has " USER_ID_FORM);
        return EX_USAGE;
    }
    if (sku && !sale_identifier(sku, "--sku"))
        return EX_USAGE;
    snprintf(path, sizeof path, "/user/%s/orders?limit=1000%s%s", http_encode(user, encoded),
             sku ? "&sku=" : "", sku ? sku : "");
    return answer_list(context, &pages, "orders", print_rows);
}
