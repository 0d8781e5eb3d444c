/* What the calls have in common: reading their parts, refusing them, handing them to a worker. */
#ifndef SECKILL_SERVICE_CALLS_CALL_H
#define SECKILL_SERVICE_CALLS_CALL_H

#include <jansson.h>

#include "service/calls/calls.h"

/* ---- answers ---- */

/* Refuses the request with 400 and this detail. */
enum call_start call_refuse(struct request *request, const char *detail);

/* Answers a call for an order that the ledger does not have. An order whose id names another pod
 * may exist there: the answer says so, as somebody has sent the call to the wrong daemons. */
void call_answer_no_order(const struct service *service, struct request *request);

/* The address of an operator's client for the log, or "unix". Lives as long as the request's. */
const char *call_address(const struct request *request);

/* Notes for GET /admin/actions that the request, which is answered by now, was an operator's
 * action. */
void call_note_action(struct service *service, const struct request *request, const char *action,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* ---- workers ---- */

/* Hands the request to the call worker of its kind, whose `work` takes requests together, or one by
 * one; `changes`: the work writes to the ledger. */
enum call_start call_send(struct request *request, call_work *work, bool changes);
enum call_start call_send_one(struct request *request, call_work_one *work, bool changes);

/* How much longer a call may wait for locks of segments: a holder that died loses its lease in that
 * time, and enough of the call's own is left to say that they were not to be had. 0: no longer. */
int call_lock_wait_ms(const struct call_worker *worker, const struct request *request);

/* ---- parts of a call ---- */

/* Copies the Idempotency-Key, "" if the call has none, to `key_out` of IDENTIFIER_SIZE bytes. NULL,
 * or what is wrong with it. */
const char *call_read_key(const struct call *call, char *key_out);

/* Copies the sku from the path to request->call. False when the text cannot be a sku: then the
 * request is answered as for an unknown one. */
bool call_read_sku(struct request *request, const struct call *call);

/* Reads the body as a JSON object, which the caller releases. NULL when the body is not an object:
 * then the request is answered. */
json_t *call_read_object(struct request *request, const struct call *call);

/* Reads a whole number from `min` to `max`. False when there is no such member, or it has another
 * value. */
bool call_read_number(const json_t *object, const char *name, json_int_t min, json_int_t max,
                      uint32_t *out);

/* A query parameter that a call takes: reads its value into `asked`, or says what is wrong. */
struct call_query {
    const char *name;
    bool (*read)(struct request_call *asked, const char *value);
    const char *detail;
};

enum { QUERY_MAX = 4 }; /* parameters that one call takes */

#define CALL_SKU_DETAIL "sku must be 1 to 64 characters out of A-Z a-z 0-9 . _ : -"

/* Readers of parameters: an order id to `after`, a sku and a user id to `filter`, a limit. */
bool call_query_after(struct request_call *asked, const char *value);
bool call_query_sku(struct request_call *asked, const char *value);
bool call_query_user(struct request_call *asked, const char *value);
bool call_query_limit(struct request_call *asked, const char *value);

/* Reads the query, of which `known` says what it may have, up to the first row without a name, and
 * `other` refuses a parameter that it may not have. NULL, or what is wrong with the query. */
const char *call_read_query(struct request_call *asked, const struct call *call,
                            const struct call_query known[QUERY_MAX], const char *other);

#endif
