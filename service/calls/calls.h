/* The calls: for each route a handler, see call_handler below, and mostly work for a call worker
 * behind it. */
#ifndef SECKILL_SERVICE_CALLS_CALLS_H
#define SECKILL_SERVICE_CALLS_CALLS_H

#include "service/request/request.h"
#include "service/service.h"

/* What a handler leaves to be done. */
enum call_start {
    START_ANSWERED,        /* request->answer is filled in */
    START_TO_ORDER_WORKER, /* request->order is filled in */
    START_TO_CALL_WORKER,  /* request->call.work is set */
};

enum { PARAMETERS_MAX = 8 };

/* A decoded query parameter. */
struct call_parameter {
    const char *name;
    const char *value;
};

/* A request as its HTTP thread has read it. The texts are valid during the handler only. */
struct call {
    struct service *service;
    const char *tail; /* of the path, behind the route's own */
    const char *body; /* need not end in NUL */
    size_t body_length;
    const char *key;           /* Idempotency-Key, or NULL */
    const char *if_none_match; /* of a request for a file; or NULL */
    const char *path;          /* decoded, without the query */
    int64_t now_ns;
    struct call_parameter parameters[PARAMETERS_MAX]; /* of a request without a body */
    size_t parameter_count;                           /* greater than the array: there were more */
};

/* ---- orders ---- */

/* POST /order; GET /order/{order_id}; POST /order/{order_id}/pay and /cancel. */
enum call_start call_order_post(struct request *request, const struct call *call);
enum call_start call_order_get(struct request *request, const struct call *call);
enum call_start call_state_pay(struct request *request, const struct call *call);
enum call_start call_state_cancel(struct request *request, const struct call *call);

/* Reads the body of POST /order, exactly sku, user_id and qty, into the order. False with the fault
 * in `detail_out` (a constant text). The text need not end in NUL. */
bool order_body_parse(const char *text, size_t length, struct stock_order *order,
                      const char **detail_out);

/* Reads it by jansson alone, as order_body_parse does with every body that is not of the plainest
 * form. Declared for tests, which compare the two readers. */
bool order_body_parse_json(const char *text, size_t length, struct stock_order *order,
                           const char **detail_out);

/* ---- lists and stock ---- */

/* GET /user/{user_id}/orders; GET /admin/orders; GET /admin/sales. */
enum call_start call_list_user(struct request *request, const struct call *call);
enum call_start call_list_all(struct request *request, const struct call *call);
enum call_start call_sale_list(struct request *request, const struct call *call);

/* GET /stock/{sku}, from a snapshot that is at most 100 ms old; GET /admin/stock/{sku}, which asks
 * the ledger each time. */
enum call_start call_stock_get(struct request *request, const struct call *call);
enum call_start call_stock_get_exact(struct request *request, const struct call *call);

/* GET /admin/audit adds up orders by sale. GET /admin/audit/{sku} shows a sale's segments in the
 * ledger and in Redis, and adds up the counts of its users. Both change nothing, and read a bounded
 * number of rows for a page. */
enum call_start call_audit_orders(struct request *request, const struct call *call);
enum call_start call_audit_sale(struct request *request, const struct call *call);

/* ---- the operator's calls ---- */

/* POST /admin/stock/reset and /admin/stock/add; PATCH and DELETE /admin/sale/{sku}; POST
 * /admin/reconcile. */
enum call_start call_sale_reset(struct request *request, const struct call *call);
enum call_start call_sale_restock(struct request *request, const struct call *call);
enum call_start call_sale_change(struct request *request, const struct call *call);
enum call_start call_sale_retire(struct request *request, const struct call *call);
enum call_start call_sale_reconcile(struct request *request, const struct call *call);

/* GET and PUT /admin/log-level; GET, POST and DELETE /admin/drain. */
enum call_start call_process_level_get(struct request *request, const struct call *call);
enum call_start call_process_level_put(struct request *request, const struct call *call);
enum call_start call_process_drain_get(struct request *request, const struct call *call);
enum call_start call_process_drain(struct request *request, const struct call *call);
enum call_start call_process_drain_undo(struct request *request, const struct call *call);

/* GET /healthz, /servingz, /readyz, /metrics, /dashboard/live and /admin/actions. */
enum call_start call_ops_healthz(struct request *request, const struct call *call);
enum call_start call_ops_servingz(struct request *request, const struct call *call);
enum call_start call_ops_readyz(struct request *request, const struct call *call);
enum call_start call_ops_metrics(struct request *request, const struct call *call);
enum call_start call_ops_openapi(struct request *request, const struct call *call);
enum call_start call_live_get(struct request *request, const struct call *call);
enum call_start call_live_actions(struct request *request, const struct call *call);

/* ---- files ---- */

/* The file that the table in web.c has for the path of the call: 304 to a client that has it
 * already, 404 where no file has this path. The demo's files exist with the option demo only. */
enum call_start call_web_file(struct request *request, const struct call *call);
enum call_start call_web_demo(struct request *request, const struct call *call);

/* ---- routes ---- */

/* Checks a call and answers it, or says who is to. Runs on the HTTP thread and does not block. */
typedef enum call_start call_handler(struct request *request, const struct call *call);

#endif
