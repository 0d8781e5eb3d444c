/* GET /user/{user_id}/orders and GET /admin/orders: who bought, page by page. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "service/desk.h"
#include "service/handlers.h"
#include "service/listing.h"
#include "service/snowflake.h"
#include "base/identifier.h"

static json_t *listed_json(const struct ledger_listed *listed)
{
    char id[SNOWFLAKE_TEXT_SIZE];
    snowflake_format(listed->order_id, id);
    json_t *order =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:s}", "order_id", id, "sku", listed->sku,
                  "user_id", listed->user_id, "qty", (int)listed->qty, "segment",
                  (int)listed->segment, "status", listed->status, "created_at", listed->created_at);
    if (listed->expires_at[0] != '\0')
        json_object_set_new(order, "expires_at", json_string(listed->expires_at));
    return order;
}

static void answer_page(struct request *request, const struct ledger_listed *orders, size_t count,
                        uint64_t next)
{
    char id[SNOWFLAKE_TEXT_SIZE];
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, listed_json(&orders[i]));
    json_t *page = json_pack("{s:o}", "orders", list);
    if (next != 0) {
        snowflake_format(next, id);
        json_object_set_new(page, "next", json_string(id));
    }
    desk_answer(request, 200, page);
}

static void work_list(struct desk *desk, struct request *request, listing_source *source)
{
    struct ledger_listed *orders = calloc(request->limit, sizeof *orders);
    size_t count = 0;
    if (!orders)
        abort();
    if (listing_fetch(desk, request, source, orders, &count))
        answer_page(request, orders, count, request->after);
    else
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE);
    free(orders);
}

static void work_user_orders(struct desk *desk, struct request *request)
{
    work_list(desk, request, ledger_user_orders);
}

static void work_admin_orders(struct desk *desk, struct request *request)
{
    work_list(desk, request, ledger_orders_scan);
}

enum start_result handle_user_orders(struct service *service, struct request *request,
                                     const struct call *call)
{
    (void)service;
    if (!listing_read(request, call, LISTING_PAGE))
        return START_ANSWERED;
    if (!identifier_copy(call->tail, strcspn(call->tail, "/"), request->filter.user_id)) {
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST,
                      "The user_id in the path must be 1 to 64 characters out of A-Z a-z 0-9 . _ "
                      ": -");
        return START_ANSWERED;
    }
    request->work = work_user_orders;
    return START_TO_DESK;
}

enum start_result handle_admin_orders(struct service *service, struct request *request,
                                      const struct call *call)
{
    (void)service;
    if (!listing_read(request, call, LISTING_PAGE))
        return START_ANSWERED;
    request->work = work_admin_orders;
    return START_TO_DESK;
}
