/* The answer to a request: a fixed problem or a text. Knows nothing of HTTP threads. */
#ifndef SECKILL_SERVICE_REQUEST_ANSWER_H
#define SECKILL_SERVICE_REQUEST_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ANSWER_INLINE_MAX = 640, /* bytes of an answer that needs no allocation */
    RETRY_AFTER_S_MAX = 3600,
    ANSWERS_BYTES_MAX = 32 << 20, /* of allocated texts; beyond it no long answer is made */
    ANSWERS_SHOP_MAX = 24 << 20,  /* beyond it none for the shop; operators are still served */
};

/* X(name, HTTP status, code, title, detail, seconds for Retry-After or 0): the list of all errors
 * that a client can get. Several may share a code, each with its own detail. Clients rely on codes
 * and statuses; titles and details may change. A new status must be added to METRICS_STATUSES,
 * which the compiler checks. */
#define PROBLEMS(X)                                                                                \
    X(INVALID_REQUEST, 400, "invalid_request", "Invalid request", "", 0)                           \
    X(AMBIGUOUS_END, 400, "ambiguous_end", "Ambiguous end",                                        \
      "The headers do not say clearly where the request ends.", 0)                                 \
    X(INVALID_HEAD, 400, "invalid_head", "Invalid head",                                           \
      "A line of the head is malformed, or there is not exactly one Host.", 0)                     \
    X(REPEATED_HEADER, 400, "repeated_header", "Repeated header",                                  \
      "Content-Type, Idempotency-Key, Authorization, Origin and Sec-Fetch-Site come once only.",   \
      0)                                                                                           \
    X(UNAUTHORIZED, 401, "unauthorized", "Unauthorized",                                           \
      "This call needs the header Authorization: Bearer with a valid token of its class.", 0)      \
    X(ORIGIN_REFUSED, 403, "origin_refused", "Origin refused",                                     \
      "A page of another origin may not make this call; see Origin.", 0)                           \
    X(NOT_FOUND, 404, "not_found", "Not found", "There is nothing at this path.", 0)               \
    X(UNKNOWN_SKU, 404, "unknown_sku", "Unknown sku", "There is no sale of this sku.", 0)          \
    X(UNKNOWN_ORDER, 404, "unknown_order", "Unknown order", "There is no order with this id.", 0)  \
    X(UNKNOWN_PAYMENT, 404, "unknown_payment", "Unknown payment",                                  \
      "The order has no payment with this payment_ref.", 0)                                        \
    X(UNKNOWN_WEBHOOK, 404, "unknown_webhook", "Unknown webhook",                                  \
      "There is no webhook of this name.", 0)                                                      \
    X(UNKNOWN_UNDELIVERED, 404, "unknown_undelivered", "Unknown undelivered request",              \
      "The webhook has given up no request of this id.", 0)                                        \
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
    X(OTHER_ROUND, 409, "round_mismatch", "Round mismatch",                                        \
      "The sale is not in the round of if_round; see round, which is 0 without a sale.", 0)        \
    X(ROUND_IN_USE, 409, "round_in_use", "Round in use",                                           \
      "Orders of the present round hold units; end_round ends those that are reserved.", 0)        \
    X(INVALID_STATE, 409, "invalid_state", "Invalid state",                                        \
      "The order's present status does not allow this call; see order_status.", 0)                 \
    X(PAYMENT_TOO_LATE, 409, "payment_too_late", "Payment too late",                               \
      "The order cannot have units any more; the money is to be paid back, see payment_state.", 0) \
    X(ALREADY_PAID, 409, "already_paid", "Already paid",                                           \
      "Another payment has paid the order; this one is to be paid back, see payment_state.", 0)    \
    X(PAYMENT_FAILED, 409, "payment_failed", "Payment failed",                                     \
      "This payment was told as failed, for good; tell new money by another payment_ref.", 0)      \
    X(HOLD_LIMIT, 409, "hold_limit_reached", "Hold limit reached",                                 \
      "The sale lets the order be held until the time in latest.", 0)                              \
    X(REFUNDS_DUE, 409, "refunds_due", "Refunds due",                                              \
      "Payments of the sale's orders are to be paid back; refunds_elsewhere leaves them so.", 0)   \
    X(SALE_IN_USE, 409, "sale_in_use", "Sale in use",                                              \
      "Orders of the sale are reserved; see reserved.", 0)                                         \
    X(EVENTS_OFF, 409, "events_off", "Events off",                                                 \
      "The daemon notes no events; see the option events_retention_h.", 0)                         \
    X(TOO_MANY_ORDERS, 409, "too_many_orders", "Too many orders",                                  \
      "The user has more than 10000 orders; GET /admin/orders lists those of all users.", 0)       \
    X(WEBHOOKS_FULL, 409, "too_many_webhooks", "Too many webhooks",                                \
      "There are 64 webhooks already.", 0)                                                         \
    X(CURSOR_EXPIRED, 410, "cursor_expired", "Cursor expired",                                     \
      "The feed has no events behind this cursor: they are no longer kept, its ledger has gone "   \
      "back in time, or it is of another pod. oldest is the cursor of the oldest event.",          \
      0)                                                                                           \
    X(PAYLOAD_TOO_LARGE, 413, "payload_too_large", "Payload too large",                            \
      "A body may have at most 4096 bytes.", 0)                                                    \
    X(URI_TOO_LONG, 414, "uri_too_long", "URI too long",                                           \
      "A target may have at most 4096 bytes, and a query 50 parameters.", 0)                       \
    X(UNSUPPORTED_MEDIA_TYPE, 415, "unsupported_media_type", "Unsupported media type",             \
      "The body must be application/json.", 0)                                                     \
    X(KEEP_LIMIT, 422, "keep_too_large", "Keep too large",                                         \
      "The order never had as many units as keep says.", 0)                                        \
    X(KEY_REUSED, 422, "idempotency_key_reused", "Idempotency key reused",                         \
      "This Idempotency-Key belongs to an order with another sku or qty.", 0)                      \
    X(RATE_LIMITED, 429, "rate_limited", "Rate limited",                                           \
      "This user or this address has ordered too often; try again later.", 1)                      \
    X(HEADERS_TOO_LARGE, 431, "headers_too_large", "Headers too large",                            \
      "The headers and cookies take more memory than a connection has.", 0)                        \
    X(OVERLOADED, 503, "overloaded", "Overloaded",                                                 \
      "Too many requests are waiting; this one was not accepted.", 1)                              \
    X(UNAVAILABLE, 503, "unavailable", "Unavailable",                                              \
      "The call cannot be carried out now; nothing was done.", 1)                                  \
    X(REDIS_UNAVAILABLE, 503, "unavailable", "Unavailable",                                        \
      "Redis cannot be reached or takes no writes now; nothing was done.", 1)                      \
    X(LEDGER_UNAVAILABLE, 503, "unavailable", "Unavailable",                                       \
      "The ledger cannot be reached or takes no writes now; nothing was done.", 1)                 \
    X(LEDGER_DAMAGED, 503, "unavailable", "Unavailable",                                           \
      "A row of this sale or order in the ledger makes no sense and must be mended by an "         \
      "operator; nothing was done.",                                                               \
      1)                                                                                           \
    X(BOTH_UNAVAILABLE, 503, "unavailable", "Unavailable",                                         \
      "Neither Redis nor the ledger can be reached or takes writes now; nothing was done.", 1)     \
    X(LOCKS_UNAVAILABLE, 503, "unavailable", "Unavailable",                                        \
      "The servers of the segments' locks cannot be reached now; nothing was done.", 1)            \
    X(NO_ORDER_ID, 503, "no_order_id", "No order id",                                              \
      "The server may not make order ids now, as it could not renew its lease of a node number; "  \
      "nothing was done.",                                                                         \
      1)                                                                                           \
    X(OUTCOME_UNKNOWN, 503, "outcome_unknown", "Outcome unknown",                                  \
      "The call may have been carried out or not. Repeat the request with its Idempotency-Key "    \
      "or, without a key, ask for the order.",                                                     \
      1)                                                                                           \
    X(HTTP_VERSION, 505, "http_version_not_supported", "HTTP version not supported",               \
      "This server speaks HTTP/1.1 and HTTP/1.0.", 0)

#define PROBLEM_ID(name, status, code, title, detail, retry) PROBLEM_##name,
enum problem { PROBLEMS(PROBLEM_ID) PROBLEM_COUNT, PROBLEM_NONE = PROBLEM_COUNT };
#undef PROBLEM_ID

struct prepared;

/* Written by the thread that has the request, read by its HTTP thread once it came back. All zeros,
 * with PROBLEM_NONE, is an empty answer. */
struct answer {
    enum problem problem;      /* PROBLEM_NONE: the members below are the answer */
    struct prepared *prepared; /* NULL, or a hold on an answer that many requests share */
    unsigned status;
    const char *content_type; /* a constant text */
    char *text;               /* inline_text, or malloc'ed and the answer's own */
    size_t length;
    uint64_t new_order_id;  /* for Location of a new order; 0: no such header */
    unsigned retry_after_s; /* 0: no such header */
    unsigned limit;         /* for RateLimit-Limit and RateLimit-Reset; 0: no such headers */
    unsigned reset_s;
    char inline_text[ANSWER_INLINE_MAX];
};

struct json_t;

/* Each function that sets an answer frees what the answer owned before. */
void answer_problem(struct answer *answer, enum problem problem);

/* A problem with its own detail; NULL: the problem's usual one. */
void answer_detail(struct answer *answer, enum problem problem, const char *detail);

/* A problem with further members, given as JSON text that begins with a comma. */
void answer_members(struct answer *answer, enum problem problem, const char *detail,
                    const char *members, ...) __attribute__((format(printf, 4, 5)));

/* The answer when nobody could confirm the order's commit; order_id 0: it has no id yet. */
void answer_unknown_outcome(struct answer *answer, uint64_t order_id);

/* `text` must be malloc'ed; the answer takes ownership. */
void answer_text(struct answer *answer, unsigned status, const char *content_type, char *text,
                 size_t length);

/* Begins a text of up to ANSWER_INLINE_MAX bytes: the caller writes it to the result and sets
 * answer->length. */
char *answer_begin(struct answer *answer, unsigned status, const char *content_type);

/* Bytes allocated for the texts of all answers, without the texts inside requests. */
size_t answers_bytes(void);

/* Answers with a jansson value as text, and releases the value. */
void answer_json(struct answer *answer, unsigned status, struct json_t *value);

/* Answers with a shared answer, and takes over the caller's hold on it. */
void answer_prepared(struct answer *answer, struct prepared *prepared);

/* Frees what the answer owns, and empties it. */
void answer_clear(struct answer *answer);

unsigned problem_status(enum problem problem);
unsigned problem_retry_after(enum problem problem);

/* Writes the whole problem document, with further members `extra` (",\"name\":…" or ""). Returns
 * its length, cut to size. */
size_t problem_text(enum problem problem, const char *detail, const char *extra, char *out,
                    size_t size);

#endif
