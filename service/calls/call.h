/* What every call is made of: a handler on the HTTP thread and mostly work for a call worker. */
#ifndef SECKILL_SERVICE_CALLS_CALL_H
#define SECKILL_SERVICE_CALLS_CALL_H

#include "service/request/request.h"
#include "service/service.h"

struct json_t;

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

/* Checks a call and answers it, or says who is to. Runs on the HTTP thread and does not block. */
typedef enum call_start call_handler(struct service *service, struct request *request,
                                     const struct call *call);

/* Refuses the request with 400 and this detail. */
enum call_start call_refuse(struct request *request, const char *detail);

/* Whose call of the class ADMIN it is, for the log: an address, or "unix". Lives as long as the
 * request's own. */
const char *call_address(const struct request *request);

/* Hands the request to the call worker of its kind; `changes`: the work writes to the ledger. */
enum call_start call_send(struct request *request, call_work *work, bool changes);

/* Copies the Idempotency-Key, "" for none, to `key_out` of IDENTIFIER_SIZE bytes. NULL, or what is
 * wrong with it. */
const char *call_read_key(const struct call *call, char *key_out);

/* Copies the sku from the path to request->call. False when the text cannot be a sku: then the
 * request is answered as for an unknown one. */
bool call_read_sku(struct request *request, const struct call *call);

/* Reads the body as a JSON object, which the caller releases. NULL when the body is none: then the
 * request is answered. */
struct json_t *call_read_object(struct request *request, const struct call *call);

/* Answers a call for an order that the ledger does not have. One whose id names another pod may be
 * there: the answer says so, as somebody has sent the call to the wrong daemons. */
void call_answer_no_order(const struct service *service, struct request *request);

/* How much longer a call may wait for locks of segments: a holder that died loses its lease in that
 * time, and enough of the call's own is left to say that they were not to be had. 0: no longer. */
int call_lock_wait_ms(const struct call_worker *worker, const struct request *request);

#endif
