/* Shows one order, or the orders of one user, and makes calls of the shop: seckillctl order,
 * user, refund, unpay, extend. */
#include "ctl/commands/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/identifier.h"
#include "ctl/output/answer.h"
#include "ctl/http.h"
#include "ctl/commands/sale.h"
#include "ctl/output/table.h"

enum { PATH_SIZE = 256 + ENCODED_SIZE, KEEP_MAX = 1000 };

/* ---- printing ---- */

static void print_rows(json_t *orders)
{
    static const struct column columns[] = {
        {"order", "order_id", CELL_NUMBER},
        {"sku", "sku", CELL_TEXT},
        {"round", "round", CELL_NUMBER},
        {"user", "user_id", CELL_TEXT},
        {"qty", "qty", CELL_NUMBER},
        {"ordered", "ordered_qty", CELL_NUMBER},
        {"segment", "segment", CELL_NUMBER},
        {"status", "status", CELL_TEXT},
        {"created at", "created_at", CELL_TEXT},
        {"expires at", "expires_at", CELL_TEXT},
    };
    TABLE_PRINT(columns, orders);
}

/* ---- one order ---- */

static bool read_id(const struct context *context, int64_t *id_out)
{
    if (number_parse(argument(context, 1), 1, INT64_MAX, id_out))
        return true;
    return REFUSE(false, "an order id is a whole number");
}

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
    if (strcmp(answer_text(order, "order_id"), text) == 0)
        answer_print_row(context, order, print_rows);
    else
        status = REFUSE(EX_NOINPUT, "unknown_order: There is no order with this id.");
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
    if (!read_id(context, &id))
        return EX_USAGE;
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
        answer_print_row(context, reply.json, print_rows);
    reply_free(&reply);
    return status;
}

/* ---- what shops call ---- */

/* Sends POST /order/{id}/{what}, whose repeat changes nothing more, and shows the order. The caller
 * frees the reply. */
static int change(struct context *context, int64_t id, const char *what, const json_t *body,
                  struct reply *reply_out)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "/order/%" PRId64 "/%s", id, what);
    struct call call = {.class = CLASS_SHOP, .method = "POST", .path = path, .body = body};
    http_call(context->http, &call, reply_out);
    int status = answer_check(context, reply_out, NULL);
    if (status == EX_OK)
        answer_print_row(context, reply_out->json, print_rows);
    return status;
}

/* Of both commands, refund and unpay. */
int orders_payment_end(struct context *context)
{
    struct reply reply;
    const char *what = argument(context, 0), *ref = argument(context, 2);
    bool restock = has_option(context, OPTION_RESTOCK), failed = strcmp(what, "unpay") == 0;
    int64_t id = 0, keep = 0;
    if (!read_id(context, &id) ||
        !options_number(&context->options, OPTION_KEEP, 1, KEEP_MAX, 0, &keep))
        return EX_USAGE;
    int status =
        failed ? CONFIRM(context,
                         "notes that %s of order %" PRId64 " has failed: unless another "
                         "payment pays it, the order is reserved again",
                         ref, id)
               : CONFIRM(context,
                         "notes that %s of order %" PRId64 " is paid back%s: an order that it "
                         "pays keeps %" PRId64 " of its units, and the others %s",
                         ref, id, keep > 0 ? " in part" : "", keep,
                         restock ? "can be bought again" : "stay sold");
    if (status != EX_OK)
        return status;
    json_t *body = json_pack("{s:s, s:o*, s:o*}", "payment_ref", ref, "restock",
                             failed ? NULL : json_boolean(restock), "keep",
                             keep > 0 ? json_integer(keep) : NULL);
    status = change(context, id, what, body, &reply);
    if (status == EX_OK && !has_option(context, OPTION_JSON))
        printf("%s is %s\n", ref, answer_text(reply.json, "payment_state"));
    json_decref(body);
    reply_free(&reply);
    return status;
}

int orders_extend(struct context *context)
{
    struct reply reply;
    int64_t id = 0;
    if (!read_id(context, &id))
        return EX_USAGE;
    json_t *time = settings_time(argument(context, 2), clock_wall_ms());
    if (!json_is_string(time))
        return REFUSE(EX_USAGE, "TIME must be a span from now like +30m, or " SETTINGS_TIME);
    json_t *body = json_pack("{s:o}", "expires_at", time);
    int status = change(context, id, "extend", body, &reply);
    if (strcmp(reply.code, "hold_limit_reached") == 0)
        say("it can be held until %s", answer_text(reply.json, "latest"));
    json_decref(body);
    reply_free(&reply);
    return status;
}

/* ---- the orders of a user ---- */

int orders_of_user(struct context *context)
{
    char path[PATH_SIZE], encoded[ENCODED_SIZE];
    const char *user = argument(context, 1), *sku = context->options.values[OPTION_SKU];
    struct pages pages = {.class = CLASS_SHOP, .path = path};
    if (!user_id_valid(user, strlen(user)))
        return REFUSE(EX_USAGE, "a user id has " USER_ID_FORM);
    if (sku && !sale_identifier(sku, "--sku"))
        return EX_USAGE;
    snprintf(path, sizeof path, "/user/%s/orders?limit=1000%s%s", http_encode(user, encoded),
             sku ? "&sku=" : "", sku ? sku : "");
    return answer_list(context, &pages, "orders", print_rows);
}
