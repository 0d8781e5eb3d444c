/* The calls: for each route a handler, see call_handler below, and mostly work for a call worker
 * behind it; and what they have in common: reading their parts, refusing them, handing them on. */
#ifndef SECKILL_SERVICE_CALLS_CALLS_H
#define SECKILL_SERVICE_CALLS_CALLS_H

#include <jansson.h>

#include "service/log/log.h"
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
enum call_start call_live_get(struct request *request, const struct call *call);
enum call_start call_live_actions(struct request *request, const struct call *call);

/* ---- files ---- */

/* The file that web_files.h has for the path of the call: 304 to a client that has it
 * already, 404 where no file has this path. The demo's files exist with the option demo only. */
enum call_start call_web_file(struct request *request, const struct call *call);
enum call_start call_web_demo(struct request *request, const struct call *call);

/* ---- for service/calls/ alone: answers ---- */

/* Refuses the request with 400 and this detail. */
enum call_start call_refuse(struct request *request, const char *detail);

/* The address of an operator's client for the log, or "unix". Lives as long as the request's. */
const char *call_address(const struct request *request);

/* Ends an operator's action, which is answered by now: writes a line to the log, with the caller's
 * address, as operators ask later who changed what, and notes the same for GET /admin/actions.
 * `sku` is "" when the action concerns no sale. */
void call_end_action(enum log_level level, const char *event, struct service *service,
                     const struct request *request, const char *sku, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* ---- the same: workers ---- */

/* Hands the request to the call worker of its kind, whose `work` takes requests together, or one by
 * one; `changes`: the work writes to the ledger. */
enum call_start call_send(struct request *request, call_work *work, bool changes);
enum call_start call_send_one(struct request *request, call_work_one *work, bool changes);

/* How much longer a call may wait for locks of segments: a holder that died loses its lease in that
 * time, and enough of the call's own is left to say that they were not to be had. 0: no longer. */
int call_lock_wait_ms(const struct call_worker *worker, const struct request *request);

/* ---- the same: parts of a call ---- */

/* Copies the Idempotency-Key, "" if the call has none, to `key_out` of IDENTIFIER_SIZE bytes. NULL,
 * or what is wrong with it. */
const char *call_read_key(const struct call *call, char *key_out);

/* Copies the sku from the path to request->call. False when the text cannot be a sku: then the
 * request is answered as for an unknown one. */
bool call_read_sku(struct request *request, const struct call *call);

/* What the value of a member may be, and what it is written to. */
enum call_field_kind {
    FIELD_TEXT,           /* what `copy` makes of it, mostly char[] */
    FIELD_SWITCH,         /* bool */
    FIELD_NUMBER,         /* uint32_t: a whole number from min to max */
    FIELD_NUMBER_OR_NULL, /* the same; null is 0 */
    FIELD_TIME_OR_NULL,   /* int64_t: a time of RFC 3339 as ms since 1970; null is 0 */
};

/* A member that a body may have, or a parameter of a query. */
struct call_field {
    const char *name;
    enum call_field_kind kind;
    size_t at;          /* of the value, in the struct that is filled in */
    const char *detail; /* tells that the member has another value, or is missing */
    bool must;          /* otherwise an absent member leaves its value as it is */
    json_int_t min, max;
    bool (*copy)(const char *text, size_t length, char *out);
};

enum { FIELDS_MAX = 5 }; /* members of one table */

/* The members of a body, or the parameters of a query, up to the first without a name. */
struct call_body {
    struct call_field fields[FIELDS_MAX];
    bool settings;     /* it may also have the settings of a sale, for request->call.change */
    const char *other; /* refuses a member that it may not have */
};

/* Reads a JSON object, which the caller releases. NULL with the fault in `detail_out` (a constant
 * text); `overflow` is the fault of a number beyond all bounds. */
json_t *call_parse_object(const char *text, size_t length, const char *overflow,
                          const char **detail_out);

/* Reads the members of these fields into `out`; the bits of `found_out` say which of them there
 * are. NULL, or what is wrong with one. */
const char *call_read_fields(const json_t *object, const struct call_field fields[FIELDS_MAX],
                             void *out, unsigned *found_out);

/* Reads the body of the call into `out`, and which fields it has into request->call.found. False
 * when it is wrong: then the request is answered. */
bool call_read_body(struct request *request, const struct call *call, const struct call_body *body,
                    void *out);

#define SKU_FORM "1 to 64 characters out of A-Z a-z 0-9 . _ : -"

/* Reads the query, whose parameters are fields with texts, into request->call. False when it is
 * wrong: then the request is answered. */
bool call_read_query(struct request *request, const struct call *call,
                     const struct call_body *query);

/* For fields of a query: copy the id of an order, uint64_t, and the rows of a page, uint32_t. */
bool call_copy_order_id(const char *text, size_t length, char *id_out);
bool call_copy_limit(const char *text, size_t length, char *limit_out);

/* ---- the same: settings of a sale ---- */

enum {
    PER_USER_LIMIT_MAX = 10000000,    /* units, as many as a sale may have */
    PAY_WITHIN_S_MAX = 30 * 24 * 3600 /* a month */
};

/* Reads a date-time of RFC 3339 as ms since 1970: 2026-11-20T21:30:00Z, with an offset like
 * 2026-11-21T05:30:00.5+08:00, with any number of digits of a second's fraction, of which those
 * behind the ms are cut off; t and z may be small. The offset -00:00 is UTC. A leap second,
 * 23:59:60 in UTC on the last day of a month, is the moment at its end, whatever its fraction,
 * because clocks have no number for it. False for other texts and for moments before the year 2000
 * or after 9999 in UTC. Any thread. */
bool sale_time_parse(const char *text, int64_t *ms_out);

/* Reads the members of `object` that are settings; null stands for none. Returns NULL, or what is
 * wrong with one of them. */
const char *sale_settings_read(const json_t *object, struct stock_change *change_out);

/* Adds the settings to a sale's object: the ones that are set, whether the sale is paused, and
 * "counting" while its users' units are counted. */
void sale_settings_add(json_t *object, const struct ledger_settings *settings);

/* A sale with its numbers and settings, for the caller to release. */
json_t *sale_json(const struct ledger_sale *sale);

/* Writes the settings that the change sets for the log, " paused=true per_user_limit=3", with
 * "none" for one that is taken away, and gives `out` back. */
enum { SALE_SETTINGS_LOG_SIZE = 192 };
const char *sale_settings_log(const struct stock_change *change, char out[SALE_SETTINGS_LOG_SIZE]);

/* ---- routes ---- */

/* Checks a call and answers it, or says who is to. Runs on the HTTP thread and does not block. */
typedef enum call_start call_handler(struct request *request, const struct call *call);

#endif
