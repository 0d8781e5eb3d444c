/* One HTTP request on its way: from its front to a lane or a desk, and back with its answer.
 *
 *              lane or desk takes it      lane puts it back
 *   RECEIVING ─► QUEUED ─► TAKEN ─► DONE      TAKEN ─► QUEUED
 *                  └────► GIVEN_UP            (deadline came first; whoever takes it returns it)
 *                         DONE ─► QUEUED        (a stream, for its next page)
 *                         TAKEN ─► TOLD         (deadline: its id was told, so it gets no other)
 *
 * The front that made a request is the only one to free it, after it came back. */
#ifndef SECKILL_SERVICE_REQUEST_H
#define SECKILL_SERVICE_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sql/ledger_list.h"
#include "stock/order.h"
#include "stock/sale_settings.h"

enum {
    BODY_MAX = 4096,         /* bytes of a request's body */
    BODY_INLINE_MAX = 320,   /* bytes of a body that needs no allocation */
    ANSWER_INLINE_MAX = 640, /* bytes of an answer that needs no allocation */
    RETRY_AFTER_S_MAX = 3600,
};

enum request_state {
    REQUEST_RECEIVING,
    REQUEST_QUEUED,
    REQUEST_TAKEN,
    REQUEST_DONE,
    REQUEST_GIVEN_UP,
    REQUEST_TOLD,
    REQUEST_STATES
};

/* X(name, HTTP status, code, title, detail, seconds for Retry-After or 0): every error a client can
 * get, in one list. */
#define PROBLEMS(X)                                                                                \
    X(INVALID_REQUEST, 400, "invalid_request", "Invalid request", "", 0)                           \
    X(AMBIGUOUS_END, 400, "ambiguous_end", "Ambiguous end",                                        \
      "The headers leave open where the request ends.", 0)                                         \
    X(UNAUTHORIZED, 401, "unauthorized", "Unauthorized",                                           \
      "This call wants Authorization: Bearer and the admin token.", 0)                             \
    X(NOT_FOUND, 404, "not_found", "Not found", "There is nothing at this path.", 0)               \
    X(UNKNOWN_SKU, 404, "unknown_sku", "Unknown sku", "There is no sale of this sku.", 0)          \
    X(UNKNOWN_ORDER, 404, "unknown_order", "Unknown order", "There is no order with this id.", 0)  \
    X(METHOD_NOT_ALLOWED, 405, "method_not_allowed", "Method not allowed",                         \
      "This path takes another method; see Allow.", 0)                                             \
    X(REQUEST_TIMEOUT, 408, "request_timeout", "Request timeout",                                  \
      "The request was not complete in time.", 0)                                                  \
    X(SOLD_OUT, 409, "sold_out", "Sold out", "Fewer units are left than the order wants.", 0)      \
    X(NOT_STARTED, 409, "sale_not_started", "Sale not started",                                    \
      "The sale is not open yet; see starts_at.", 1)                                               \
    X(ENDED, 409, "sale_ended", "Sale ended", "The sale is over; see ends_at.", 0)                 \
    X(PAUSED, 409, "sale_paused", "Sale paused", "The sale takes no orders for now.", 5)           \
    X(LIMIT, 409, "limit_reached", "Limit reached",                                                \
      "The user would have more units than the sale's limit allows; see orders.", 0)               \
    X(INVALID_STATE, 409, "invalid_state", "Invalid state",                                        \
      "The order cannot get there from the state it is in.", 0)                                    \
    X(PAYLOAD_TOO_LARGE, 413, "payload_too_large", "Payload too large",                            \
      "A body may have at most 4096 bytes.", 0)                                                    \
    X(URI_TOO_LONG, 414, "uri_too_long", "URI too long",                                           \
      "A query may have at most 32 parameters.", 0)                                                \
    X(UNSUPPORTED_MEDIA_TYPE, 415, "unsupported_media_type", "Unsupported media type",             \
      "The body must be application/json.", 0)                                                     \
    X(KEY_REUSED, 422, "idempotency_key_reused", "Idempotency key reused",                         \
      "This Idempotency-Key belongs to an order with another sku or qty.", 0)                      \
    X(RATE_LIMITED, 429, "rate_limited", "Rate limited",                                           \
      "This user or this address has ordered too often; try again later.", 1)                      \
    X(HEADERS_TOO_LARGE, 431, "headers_too_large", "Headers too large",                            \
      "The headers and cookies take more memory than a connection has.", 0)                        \
    X(INTERNAL_ERROR, 500, "internal_error", "Internal error", "The service failed.", 0)           \
    X(OVERLOADED, 503, "overloaded", "Overloaded",                                                 \
      "Too many orders are waiting; this one was not accepted.", 1)                                \
    X(UNAVAILABLE, 503, "unavailable", "Unavailable",                                              \
      "Redis or the ledger cannot be reached now; nothing was done.", 1)                           \
    X(OUTCOME_UNKNOWN, 503, "outcome_unknown", "Outcome unknown",                                  \
      "It may be done or not. Repeat it with its Idempotency-Key or, without one, ask for it.", 1)

#define PROBLEM_ID(name, status, code, title, detail, retry) PROBLEM_##name,
enum problem { PROBLEMS(PROBLEM_ID) PROBLEM_COUNT, PROBLEM_NONE = PROBLEM_COUNT };
#undef PROBLEM_ID

/* What a client gets: a fixed problem, or a text. */
struct answer {
    enum problem problem; /* PROBLEM_NONE: the text below */
    unsigned status;
    const char *content_type;
    bool stream; /* in place of the text: the request's stream */
    char *text;  /* inline_text, or malloc'ed */
    size_t length;
    unsigned retry_after_s; /* 0: no such header */
    unsigned limit;         /* for RateLimit-Limit and RateLimit-Reset; 0: no such headers */
    unsigned reset_s;
    char inline_text[ANSWER_INLINE_MAX];
};

struct desk;
struct front;
struct request_list;
struct route;
struct stream;
struct http_connection;

struct request {
    _Atomic int state;
    struct request *queue_next; /* in a queue, or in a front's list of those that came back */
    unsigned flow;              /* its place in the queue, see queue.h */
    _Atomic uint64_t shown_id;  /* the order's id while it is taken, for a deadline's answer */
    struct front *front;

    /* The front's own. */
    struct http_connection *connection; /* NULL: answered or closed, nobody waits any more */
    const struct route *route;
    const char *allow;         /* with METHOD_NOT_ALLOWED: the methods there are */
    enum problem refusal;      /* found before the body was read; PROBLEM_NONE: none */
    struct request_list *list; /* the one of the front's lists it is in, or NULL */
    struct request *prev, *next;
    int64_t arrived_ns; /* when it was complete: a slow sender loses none of its deadline */
    int64_t until_ns;   /* when the front stops waiting */
    bool begun;         /* its headers were read */
    bool query_cut;     /* it had more parameters than are read */
    bool head;          /* HEAD: the answer goes without its body */
    bool away;          /* in a queue, a lane or a desk */
    bool ready;         /* its answer is there */
    bool expired;       /* the deadline came before the answer */
    bool parked;        /* asked after in every turn of the loop */
    bool suspended;     /* taken out of libmicrohttpd's loop */
    char *body;         /* inline_body, or malloc'ed */
    size_t body_length;
    char inline_body[BODY_INLINE_MAX];

    /* For the lane. */
    struct stock_order order;

    /* For the desk: what to do, and with what. */
    void (*work)(struct desk *desk, struct request *request);
    /* NULL, or what the deadline answers while a desk is still at work. */
    void (*expire)(const struct request *request, struct answer *answer);
    bool again;           /* it could not be done yet: back to the end of the queue */
    _Atomic int progress; /* for expire: how far the desk has come */
    bool changes;         /* it writes: past the deadline its outcome is unknown, not unavailable */
    uint64_t order_id;
    uint32_t total;
    uint32_t segments;
    struct ledger_filter filter; /* of a listing */
    uint64_t after;
    uint32_t limit;
    struct stock_change change;
    struct stream *stream; /* NULL, or the pages of an answer of any length */

    struct answer answer;
};

/* Moves the state from `from` to `to` if it is still there; dies when the table does not have that
 * move. Any thread. */
bool request_move(struct request *request, enum request_state from, enum request_state to);

void answer_problem(struct answer *answer, enum problem problem);

/* A problem with a detail of its own. */
void answer_detail(struct answer *answer, enum problem problem, const char *detail);

/* `text` must be malloc'ed; the answer owns it from now on. */
void answer_text(struct answer *answer, unsigned status, const char *content_type, char *text,
                 size_t length);

/* The answer is the request's stream. */
void answer_stream(struct answer *answer, unsigned status, const char *content_type);

/* The answer to a decided order. */
void answer_order(struct request *request);

/* The answer to an order that may have been accepted. */
void answer_order_unknown(struct answer *answer, uint64_t order_id);

/* The answer to a move that the order's state, `status`, does not allow. */
void answer_invalid_state(struct answer *answer, const char *status, const char *detail);

/* Frees what the answer owns. */
void answer_clear(struct answer *answer);

unsigned problem_status(enum problem problem);
unsigned problem_retry_after(enum problem problem);

/* The whole problem document, with an extra member `extra` (",\"name\":…" or ""). Returns its
 * length, cut to size. */
size_t problem_text(enum problem problem, const char *detail, const char *extra, char *out,
                    size_t size);

#endif
