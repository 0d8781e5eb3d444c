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
#include "sql/orders/orders.h"
#include "stock/stock.h"
#include "stock/sales/sales.h"

enum {
    BODY_MAX = 4096,       /* bytes of a request's body */
    BODY_INLINE_MAX = 320, /* bytes of a body that needs no allocation */
};

/* ---- kinds of calls: each has a queue and a call worker of its own, so that no kind waits behind
 * another, and none is refused because another has filled its queue ---- */

struct config;

enum call_kind {
    CALL_LOOKUP,  /* an order, and the stock of a sale */
    CALL_PAYMENT, /* of an order */
    CALL_CANCEL,  /* of an order; waits for the locks of segments */
    CALL_LIST,    /* the orders of a user */
    CALL_ADMIN,   /* the operator's quick calls, such as the pause of a sale */
    CALL_SALE,    /* the operator's calls that hold all segments of a sale */
    CALL_LISTING, /* the operator's lists of orders */
    CALL_KINDS,
    CALL_ORDER = CALL_KINDS, /* no call worker: an order worker carries it */
};

enum { CALL_BATCH_MAX = 512 };

struct call_kind_row {
    const char *thread; /* name of its worker's thread */
    const char *failed; /* the event in the log when a server fails a batch of them */
    size_t places;      /* calls that may wait, or be with the worker, at most */
    size_t batch;       /* calls that the worker takes at a time; up to CALL_BATCH_MAX */
    unsigned cost;      /* of a call, as a share of an order's, in percent; see http/fair.c */
    bool locks;         /* it may wait for the locks of segments, see call_bound_ms */
};

/* The row of each kind but CALL_ORDER. */
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

/* Where a request is as its HTTP thread sees it; http/exchange.c has the table of transitions. */
enum http_phase {
    PHASE_FREE,      /* in the thread's list of free requests */
    PHASE_HEAD,      /* libmicrohttpd reads its headers */
    PHASE_BODY,      /* its headers were checked; libmicrohttpd reads its body */
    PHASE_IN_FLIGHT, /* sent on and not come back */
    PHASE_ABANDONED, /* in flight, and no client waits any more */
    PHASE_READY,     /* its answer is there, queued at libmicrohttpd or about to be */
    PHASE_COUNT
};

struct http_connection;
struct request;
struct service;
struct stock;
struct route;

/* The HTTP thread's part: no other thread touches it, at any time. */
struct request_http {
    enum http_phase phase;
    struct http_connection *connection; /* NULL: answered or closed */
    const struct route *route;          /* NULL: none was found */
    const char *allow;                  /* with METHOD_NOT_ALLOWED: the methods there are */
    enum problem refusal;               /* found before the body was read; PROBLEM_NONE: none */
    int64_t until_ns;                   /* when the thread stops waiting */
    int64_t held_ns;               /* since when it is held for the sake of orders; 0: it is not */
    int64_t complete_ns;           /* when it was read */
    size_t uri_length;             /* of the first line, see struct head_line */
    size_t path_at;                /* in the first line's target, see head_read_target */
    bool bad_target;               /* the same */
    size_t plain_head, plain_tail; /* of the path, see struct route_path */
    bool query_cut;                /* it had more parameters than are read */
    bool head;                     /* HEAD: the answer goes without its body */
    char *body;                    /* inline_body, or malloc'ed */
    size_t body_length;
    char inline_body[BODY_INLINE_MAX];
};

/* What a call worker brings to request_call.work; it belongs to the worker's thread. */
struct call_worker {
    struct service *service;
    struct stock *stock; /* its own connections */
};

/* Carries requests that have the same work, and leaves an answer in each, or sets `again`. */
typedef void call_work(struct call_worker *worker, struct request **requests, size_t count);

/* Carries one request, likewise. */
typedef void call_work_one(struct call_worker *worker, struct request *request);

/* What a call worker is to do. The HTTP thread fills it in before it queues the request; from then
 * on it is the worker's. Only `changes`, which does not change any more, may be read by the HTTP
 * thread meanwhile. */
struct request_call {
    call_work *work;
    call_work_one *work_one; /* of a work that carries requests one by one */
    bool changes; /* it writes: past the deadline its outcome is unknown, not unavailable */
    bool again;   /* set by work: not possible yet, so put it at the end of the queue */
    char sku[IDENTIFIER_SIZE];
    char key[IDENTIFIER_SIZE]; /* Idempotency-Key, "" for none */
    uint64_t order_id;
    uint32_t total; /* units */
    uint32_t segments;
    unsigned found; /* bits of the fields that its body has, see call_read_body */
    bool only_if;   /* of a reset: only if the sale is in the round if_round */
    uint32_t if_round;
    bool end_round;
    struct stock_change change;
    struct ledger_filter filter; /* of a listing */
    uint64_t after;              /* the listing goes on behind this order */
    uint32_t limit;              /* orders on a page */
};

/* Where an HTTP thread's requests come back to. Workers add, the thread takes. */
struct request_home {
    _Atomic(struct request *) returned; /* linked by queue_next */
    int wake_fd;                        /* eventfd in the thread's epoll set */
};

struct request {
    /* The hand-over between threads. */
    _Atomic int state;             /* request_move alone changes it while it is in flight */
    struct request *queue_next;    /* in a queue, or in one of its HTTP thread's lists */
    unsigned flow;                 /* its place in the queue, see queue.h */
    _Atomic uint64_t published_id; /* the order's id while it is taken, for a deadline's answer */
    int64_t arrived_ns;            /* when its first line was read; its time counts from here */
    int64_t stage_ns; /* when its present stage began, by whoever has it: see HISTOGRAM_STAGE_… */
    struct request_home *home; /* of the HTTP thread that made it; never changes */
    struct trace trace;        /* its ids */

    struct request_http http;
    /* The order worker's while it has the request; filled in by POST /order. */
    struct stock_order order;
    struct request_call call;
    /* Written by the thread that has the request, sent by the HTTP thread. */
    struct answer answer;
};

/* Moves the state from `from` to `to`, unless another thread has changed it before: then false.
 * Asserts that the table has such a transition. Any thread. */
bool request_move(struct request *request, enum request_state from, enum request_state to);

/* Wakes the HTTP thread. Any thread. */
void request_home_wake(const struct request_home *home);

/* Gives requests back to their HTTP threads, one list and one wake-up per thread. Overwrites the
 * array. Any thread; may be called until the HTTP threads are closed. */
void request_return_all(struct request **requests, size_t count);

#endif
