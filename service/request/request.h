/* One HTTP request on its way: from its HTTP thread to a worker, and back with its answer.
 *
 *                  worker takes it          order worker puts it back
 *   RECEIVING ─► QUEUED ─► TAKEN ─► DONE       TAKEN ─► QUEUED
 *                  │         └────► TIMED_OUT    (deadline: its client knows its id, so it gets no
 *                  │                              other id; the worker gives it back)
 *                  └────► WITHDRAWN              (deadline came first: no worker may take it)
 *
 * The state says which thread has the request: a worker between TAKEN and handing it back, its HTTP
 * thread otherwise, and nobody while it is QUEUED. Only the HTTP thread that made a request frees
 * it, once it came back. */
#ifndef SECKILL_SERVICE_REQUEST_REQUEST_H
#define SECKILL_SERVICE_REQUEST_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/request/answer.h"
#include "service/request/trace.h"
#include "sql/payments/payments.h"
#include "stock/stock.h"
#include "stock/sales/sales.h"

enum {
    BODY_MAX = 4096,       /* bytes of a request's body */
    BODY_INLINE_MAX = 320, /* bytes of a body that needs no allocation */
};

/* ---- kinds of calls: each has its own queue and call worker, so that no kind delays another or
 * fills another's queue ---- */

struct config;

enum call_kind {
    CALL_LOOKUP,  /* an order, or the stock of a sale */
    CALL_PAYMENT, /* of an order */
    CALL_CANCEL,  /* of an order, or a late payment; waits for the locks of segments */
    CALL_LIST,    /* the orders of a user */
    CALL_ADMIN,   /* the operator's quick calls, such as the pause of a sale */
    CALL_SALE,    /* the operator's calls that hold all segments of a sale */
    CALL_LISTING, /* the operator's lists of orders */
    CALL_WEBHOOK, /* the test of a webhook, which waits for its receiver */
    CALL_EVENTS,  /* the feed of events; carried by its own worker, where requests wait */
    CALL_KINDS,
    CALL_ORDER = CALL_KINDS, /* carried by order workers, not by a call worker */
};

enum { CALL_BATCH_MAX = 512 };

/* A reader of the feed is behind the event at `position`, in a batch with this mark. */
struct feed_cursor {
    uint64_t position, mark;
};

/* Where the feed of events begins to read, instead of behind a position. */
#define FEED_FROM_OLDEST (UINT64_MAX - 1) /* with the oldest event that is kept */
#define FEED_FROM_END UINT64_MAX          /* with the next event to come */

enum {
    FEED_LIMIT_MAX = 1000, /* events of one answer */
    FEED_WAIT_S_MAX = 30,  /* that a request may wait for one */
};

struct call_kind_row {
    const char *word;   /* in metrics */
    const char *thread; /* name of its worker's thread */
    const char *failed; /* log event when a server fails a batch of them */
    size_t places;      /* calls at most, waiting or with the worker */
    size_t batch;       /* most calls that the worker takes at a time; up to CALL_BATCH_MAX */
    unsigned cost;      /* percent of an order's cost, see http/fair.c */
    bool locks;         /* may wait for the locks of segments, see call_bound_ms */
};

/* A row for each kind except CALL_ORDER. */
extern const struct call_kind_row call_kinds[CALL_KINDS];

/* How long a call may take, from its first line to its answer:
 *
 *   call                                            ms                              by default
 *   a request of any kind that is not complete      deadline_ms, then 408                  2 s
 *   orders, look-ups, payments, lists of a user     deadline_ms, then 503                  2 s
 *   cancels, the operator's calls and listings,     lease_ms + deadline_ms / 2, or         4 s
 *     for they may wait for a holder that died        deadline_ms if that is more, then 503
 *
 * http/exchange.c: look_for_answer and http/connection.c: connection_expire enforce it. All else is
 * answered from memory. A client that has not finished a first line has asked nothing yet, and one
 * that does not take its answer keeps itself waiting: each has idle_ms, see http/connection.c. */
int call_bound_ms(const struct config *config, bool locks);

/* ---- requests ---- */

enum request_state {
    REQUEST_RECEIVING,
    REQUEST_QUEUED,
    REQUEST_TAKEN,
    REQUEST_DONE,
    REQUEST_WITHDRAWN,
    REQUEST_TIMED_OUT,
    REQUEST_STATES
};

/* A request's phase for its HTTP thread; http/exchange.c has the table of transitions. */
enum http_phase {
    PHASE_FREE,      /* in the thread's list of free requests */
    PHASE_HEAD,      /* libmicrohttpd reads its headers */
    PHASE_BODY,      /* headers checked; libmicrohttpd reads the body */
    PHASE_IN_FLIGHT, /* in a queue or with a worker */
    PHASE_ABANDONED, /* in flight, but no client waits any more */
    PHASE_READY,     /* answered; the answer is queued at libmicrohttpd or about to be */
    PHASE_COUNT
};

struct http_connection;
struct request;
struct service_worker;
struct route;
struct state_work;
struct webhook_settings;

/* Only the HTTP thread ever touches this part. */
struct request_http {
    enum http_phase phase;
    struct http_connection *connection; /* NULL: answered or closed */
    const struct route *route;          /* NULL: none was found */
    const char *allow;                  /* with METHOD_NOT_ALLOWED: the path's methods */
    enum problem refusal;               /* found before the body was read; or PROBLEM_NONE */
    int64_t until_ns;                   /* when the thread stops waiting */
    int64_t held_ns;                    /* when fair.c began to hold it; 0: not held */
    int64_t complete_ns;                /* when it was completely read */
    size_t uri_length;                  /* see struct head_line */
    size_t path_at;                     /* see head_read_target */
    bool bad_target;                    /* see head_read_target */
    size_t head_memory;                 /* see head_check */
    size_t plain_head, plain_tail;      /* see struct route_path */
    bool query_cut;                     /* it had too many query parameters */
    bool head;                          /* HEAD: answer without a body */
    char *body;                         /* inline_body, or malloc'ed */
    size_t body_length;
    char inline_body[BODY_INLINE_MAX];
};

/* Carries requests with the same work and state, in their call worker's thread, and leaves an
 * answer in each, or sets `again`. */
typedef void call_work(struct service_worker *worker, struct request **requests, size_t count);

/* Carries a single request, likewise. */
typedef void call_work_one(struct service_worker *worker, struct request *request);

/* The work of a call worker. The HTTP thread fills it in before it queues the request; then it is
 * the worker's. Meanwhile the HTTP thread may read only `changes`, which no longer changes. */
struct request_call {
    call_work *work;
    call_work_one *work_one;        /* for work that carries requests one by one */
    const struct state_work *state; /* which change of an order the work makes; or NULL */
    bool changes;          /* writes: past the deadline its outcome is unknown, not unavailable */
    bool again;            /* set by work: not possible yet, goes to the end of the queue */
    enum ledger_late late; /* of a payment; from NEEDS_UNITS on CALL_CANCEL's worker has it */
    char sku[IDENTIFIER_SIZE];
    char key[IDENTIFIER_SIZE]; /* Idempotency-Key, "" for none */
    uint64_t order_id;
    uint32_t total; /* units */
    uint32_t segments;
    unsigned found; /* bits of the fields in its body, see call_read_body */
    bool only_if;   /* a reset only if the sale is in round if_round */
    uint32_t if_round;
    bool end_round;
    bool refunds_elsewhere; /* of a retirement */
    struct stock_change change;
    char payment_ref[PAYMENT_REF_SIZE];    /* "": none */
    uint32_t keep;                         /* units that a part of an order keeps; 0: it ends */
    bool restock;                          /* of a refund */
    int64_t expires_ms;                    /* of an extension */
    struct ledger_payment_filter payments; /* of a listing of payments */
    struct ledger_payment_place place;     /* that listing continues behind it */
    struct ledger_filter filter;           /* of a listing */
    uint64_t after;                        /* the listing continues behind this order */
    struct feed_cursor cursor;             /* of a reader of the feed */
    uint32_t limit;                        /* rows on a page */
    uint32_t wait_s;                       /* that the feed may wait for an event */
    struct webhook_settings *webhook;      /* to be set; malloc'ed, or NULL */
    bool rotate;                           /* its secret */
    uint64_t position;                     /* of an event */
    bool discard;                          /* the undelivered request that `key` names */
};

/* Where an HTTP thread's requests return. Workers add, the thread takes. */
struct request_home {
    _Atomic(struct request *) returned; /* linked by queue_next */
    int wake_fd;                        /* eventfd in the thread's epoll set */
};

struct request {
    /* For the hand-over between threads. */
    _Atomic int state;             /* in flight, only request_move changes it */
    struct request *queue_next;    /* in a queue or in a list of its HTTP thread */
    unsigned flow;                 /* in the queue, see queue.h */
    _Atomic uint64_t published_id; /* the order's id once taken, for an answer at the deadline */
    int64_t arrived_ns;            /* when its first line was read: its time starts here */
    int64_t stage_ns; /* start of its present stage, set by its holder; see HISTOGRAM_STAGE_… */
    struct request_home *home; /* of the HTTP thread that made it; constant */
    struct trace trace;        /* its ids */

    struct request_http http;
    /* Filled in by POST /order; the order worker's while it has the request. */
    struct stock_order order;
    struct request_call call;
    /* Written by the thread that has the request, sent by its HTTP thread. */
    struct answer answer;
};

/* Moves the state from `from` to `to`; false when another thread changed it first. Asserts that the
 * table allows the transition. Any thread. */
bool request_move(struct request *request, enum request_state from, enum request_state to);

/* Wakes the HTTP thread. Any thread. */
void request_home_wake(const struct request_home *home);

/* Returns requests to their HTTP threads, with one list and one wake-up per thread. Overwrites the
 * array. Any thread, until the HTTP threads are closed. */
void request_return_all(struct request **requests, size_t count);

/* Sets how long the HTTP thread waits for the answer to a request of this kind; see call_bound_ms.
 * Call it before the request is queued. HTTP thread. */
void request_set_deadline(struct request *request, const struct config *config,
                          enum call_kind kind);

/* Returns, and counts, why no order worker has decided the order in time: too many waited before
 * it, or, if none was decided since it came, Redis or the ledger hangs. `sold_ns`: when an order
 * worker last completed a batch (monotonic). HTTP thread, or the worker that has the order. */
enum problem request_why_untaken(const struct request *request, int64_t sold_ns);

/* Writes what the client of a request in flight is told when its deadline has come. The request
 * itself comes back later, when nobody waits for it any more. `sold_ns`: as above. HTTP thread. */
void request_answer_late(struct request *request, enum call_kind kind, int64_t sold_ns,
                         struct answer *answer_out);

#endif
