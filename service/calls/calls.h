/* The calls: each route has a handler (call_handler below) and mostly work for a call worker.
 * Shared helpers read the parts of a call, refuse it and hand it on. */
#ifndef SECKILL_SERVICE_CALLS_CALLS_H
#define SECKILL_SERVICE_CALLS_CALLS_H

#include <jansson.h>

#include "service/log/log.h"
#include "service/request/request.h"
#include "service/service.h"
#include "service/workers/workers.h"

/* The next step after a handler. */
enum call_start {
    START_ANSWERED,        /* request->answer is filled in */
    START_TO_ORDER_WORKER, /* request->order is filled in */
    START_TO_CALL_WORKER,  /* request->call.work is set */
};

struct call;

/* Checks a call, and answers it or names the worker to do so. Runs on the HTTP thread; never
 * blocks. */
typedef enum call_start call_handler(struct request *request, const struct call *call);

enum { PARAMETERS_MAX = 8 };

/* A decoded query parameter. */
struct call_parameter {
    const char *name;
    const char *value;
};

/* A request as read by its HTTP thread. The texts are valid during the handler only. */
struct call {
    struct service *service;
    const char *tail; /* the path behind the route's part */
    const char *body; /* need not end in NUL */
    size_t body_length;
    const char *key;           /* Idempotency-Key, or NULL */
    const char *if_none_match; /* for a file; or NULL */
    const char *path;          /* decoded, without the query */
    int64_t now_ns;
    struct call_parameter parameters[PARAMETERS_MAX]; /* of a request without a body */
    size_t parameter_count;                           /* may exceed the array: there were more */
};

/* ---- orders ---- */

/* POST /order; GET /order/{order_id}; POST /order/{order_id}/pay, /cancel, /refund, /unpay and
 * /extend. */
call_handler call_order_post, call_order_get, call_state_pay, call_state_cancel, call_state_refund,
    call_state_unpay, call_state_extend;

/* Reads the body of POST /order, exactly sku, user_id and qty, into the order. False with the fault
 * in `detail_out` (a constant text). The text need not end in NUL. */
bool order_body_parse(const char *text, size_t length, struct stock_order *order,
                      const char **detail_out);

/* Reads the body with jansson, as order_body_parse does for any body not in the plain form. Public
 * for tests, which compare the two readers. */
bool order_body_parse_json(const char *text, size_t length, struct stock_order *order,
                           const char **detail_out);

/* ---- events, lists and stock ---- */

/* GET /events. */
call_handler call_events;

/* GET /user/{user_id}/orders; GET /admin/orders; GET /admin/sales; GET /admin/payments. */
call_handler call_list_user, call_list_all, call_sale_list, call_list_payments;

/* GET /stock/{sku} answers from a snapshot at most 100 ms old; GET /admin/stock/{sku} asks the
 * ledger each time. */
call_handler call_stock_get, call_stock_get_exact;

/* GET /admin/audit adds up orders by sale. GET /admin/audit/{sku} shows a sale's segments in the
 * ledger and in Redis, and adds up its users' counts. Both change nothing, and read a bounded
 * number of rows per page. */
call_handler call_audit_orders, call_audit_sale;

/* ---- the operator's calls ---- */

/* POST /admin/stock/reset and /admin/stock/add; PATCH and DELETE /admin/sale/{sku}; POST
 * /admin/reconcile. */
call_handler call_sale_reset, call_sale_restock, call_sale_change, call_sale_retire,
    call_sale_reconcile;

/* GET /admin/webhooks; GET, PUT and DELETE /admin/webhooks/{name}; POST
 * /admin/webhooks/{name}/pause, /resume, /replay and /test; GET /admin/webhooks/{name}/undelivered;
 * POST /admin/webhooks/{name}/undelivered/replay and /discard. */
call_handler call_webhook_list, call_webhook_get, call_webhook_put, call_webhook_delete,
    call_webhook_pause, call_webhook_resume, call_webhook_replay, call_webhook_test,
    call_webhook_undelivered, call_webhook_resend, call_webhook_discard;

/* GET and PUT /admin/log-level; GET, POST and DELETE /admin/drain. */
call_handler call_process_level_get, call_process_level_put, call_process_drain_get,
    call_process_drain, call_process_drain_undo;

/* GET /healthz, /servingz, /readyz, /metrics, /dashboard/live and /admin/actions. */
call_handler call_ops_healthz, call_ops_servingz, call_ops_readyz, call_ops_metrics, call_live_get,
    call_live_actions;

/* ---- files ---- */

/* Sends the path's file from web_files.h: 304 if the client has it already, 404 if no file has this
 * path. The demo's files exist only with the option demo. */
call_handler call_web_file, call_web_demo;

/* ---- for service/calls/ only: answers ---- */

/* Refuses the request with 400 and this detail. */
enum call_start call_refuse(struct request *request, const char *detail);

/* The address of an operator's client for the log, or "unix". Lives as long as the request. */
const char *call_address(const struct request *request);

/* Ends an operator's action, which must be answered already: logs who changed what, with the
 * caller's address, and notes it for GET /admin/actions. `sku` is "" if no sale is concerned. */
void call_end_action(enum log_level level, const char *event, struct service *service,
                     const struct request *request, const char *sku, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* ---- for service/calls/ only: workers ---- */

/* Hands the request to the call worker of its kind, whose work takes requests together, or one by
 * one. `changes`: the work writes to the ledger. */
enum call_start call_send(struct request *request, call_work *work, bool changes);
enum call_start call_send_one(struct request *request, call_work_one *work, bool changes);

/* why_confirmed: a primary that was left for another server still answers questions, and knows
 * nothing of later orders: "no such order" lets a shop pay back. It can commit nothing, so with
 * several servers an answer is told only after a commit that began behind the question. */

/* Call before the questions; returns what call_confirm wants. */
uint64_t call_unconfirmed(struct service_worker *worker);

/* Commits in a ledger of several servers. When that fails, answers from status `from` up to 499
 * become 503 unavailable, or outcome_unknown when the call changes something. */
void call_confirm(struct service_worker *worker, uint64_t unconfirmed, struct request **requests,
                  size_t count, int from);

/* Milliseconds that a call may still wait for locks of segments, 0: none. A dead holder's lease
 * ends in that time, and enough of the call's own time remains to report that the locks were
 * taken. */
int call_lock_wait_ms(const struct service_worker *worker, const struct request *request);

/* ---- for service/calls/ only: parts of a call ---- */

/* Copies the Idempotency-Key, or "", to `key_out` of IDENTIFIER_SIZE bytes; of a quoted one what is
 * between the quotes. Returns NULL, or the fault. */
const char *call_read_key(const struct call *call, char *key_out);

/* Copies the sku from the path to request->call. False when it cannot be a sku: then the request is
 * answered like one for an unknown sku. */
bool call_read_sku(struct request *request, const struct call *call);

/* The kind of a member's value, and the type that it is written to. */
enum call_field_kind {
    FIELD_TEXT,           /* written by `copy`, mostly to char[] */
    FIELD_SWITCH,         /* bool */
    FIELD_NUMBER,         /* uint32_t: a whole number from min to max */
    FIELD_NUMBER_OR_NULL, /* a FIELD_NUMBER, or null for 0 */
    FIELD_TIME,           /* int64_t: a time of RFC 3339 as ms since 1970 */
    FIELD_TIME_OR_NULL,   /* the same; null is 0 */
    FIELD_WORD,           /* bool: one of two words */
    FIELD_DIGITS,         /* uint32_t: a FIELD_NUMBER as text, of a query */
};

/* A member that a body may have, or a parameter of a query. */
struct call_field {
    const char *name;
    enum call_field_kind kind;
    size_t at;          /* offset of the value in the struct */
    const char *detail; /* the fault when the member is wrong or missing */
    bool must;          /* required; an absent optional member changes nothing */
    json_int_t min, max;
    bool (*copy)(const char *text, size_t length, char *out);
    const char *words[2]; /* for false and true */
};

enum { FIELDS_MAX = 8 }; /* members of one table */

/* The members of a body, or parameters of a query, up to the first without a name. */
struct call_body {
    struct call_field fields[FIELDS_MAX];
    bool settings;     /* also accepts a sale's settings, for request->call.change */
    const char *other; /* the fault when there is any other member */
};

/* Reads a JSON object, which the caller releases. NULL with the fault in `detail_out` (a constant
 * text); `overflow` is the fault of a number beyond all bounds. */
json_t *call_parse_object(const char *text, size_t length, const char *overflow,
                          const char **detail_out);

/* Reads these fields' members into `out`; `found_out` gets a bit for each that is present. Returns
 * NULL, or the fault of one. */
const char *call_read_fields(const json_t *object, const struct call_field fields[FIELDS_MAX],
                             void *out, unsigned *found_out);

/* Reads the call's body into `out`, and the bits of its fields into request->call.found. False when
 * the body is wrong: then the request is answered. */
bool call_read_body(struct request *request, const struct call *call, const struct call_body *body,
                    void *out);

#define SKU_FORM "1 to 64 characters out of A-Z a-z 0-9 . _ : -"

/* Reads the query, whose parameters are text fields, into request->call. False when the query is
 * wrong: then the request is answered. */
bool call_read_query(struct request *request, const struct call *call,
                     const struct call_body *query);

/* A field reader for queries: an order's id to a uint64_t. */
bool call_copy_order_id(const char *text, size_t length, char *id_out);

/* The rows of a page. */
#define LIMIT_FIELD                                                                                \
    {                                                                                              \
        "limit", FIELD_DIGITS, offsetof(struct request_call, limit),                               \
            "limit must be a whole number from 1 to 1000.", .min = 1, .max = 1000                  \
    }

/* Reads a whole number of at most 19 digits, and nothing else. False when it is none, or greater
 * than `max`. */
bool call_read_number(const char *text, size_t length, uint64_t max, uint64_t *number_out);

/* False, with the request answered, while events are off. */
bool call_events_on(struct request *request, const struct call *call);

/* ---- for service/calls/ only: settings of a sale ---- */

enum {
    PER_USER_LIMIT_MAX = 10000000,     /* units, as many as a sale may have */
    PAY_WITHIN_S_MAX = 30 * 24 * 3600, /* a month */
    GRACE_S_MAX = 24 * 3600            /* a day */
};

/* Reads a date-time of RFC 3339 as ms since 1970: 2026-11-20T21:30:00Z, or with an offset,
 * 2026-11-21T05:30:00.5+08:00. Any number of fraction digits is accepted, and cut off after the ms;
 * t and z may be lower case; the offset -00:00 is UTC. A leap second, 23:59:60 UTC on the last day
 * of a month, counts as the moment at its end, whatever its fraction, because clocks have no number
 * for it. False for other texts and for moments before 2000 or after 9999 in UTC. Any thread. */
bool sale_time_parse(const char *text, int64_t *ms_out);

/* Reads the settings among the members of `object`; null unsets one. Returns NULL, or the fault of
 * one. */
const char *sale_settings_read(const json_t *object, struct stock_change *change_out);

/* Adds the settings to a sale's object: those that are set, `paused`, and "counting" while its
 * users' units are counted. */
void sale_settings_add(json_t *object, const struct ledger_settings *settings);

/* A sale with its numbers and settings; the caller releases it. */
json_t *sale_json(const struct ledger_sale *sale);

/* Writes the changed settings for the log, " paused=true per_user_limit=3", with "none" for one
 * that is unset. Returns `out`. */
enum { SALE_SETTINGS_LOG_SIZE = 256 };
const char *sale_settings_log(const struct stock_change *change, char out[SALE_SETTINGS_LOG_SIZE]);

#endif
