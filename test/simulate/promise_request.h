/* Checks what the clients of daemons are told, request by request. */
#ifndef SIMULATE_PROMISE_REQUEST_H
#define SIMULATE_PROMISE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/request/request.h"
#include "test/simulate/promise.h"

enum { ASKED_MAX = 2048 };

enum asked_kind {
    ASKED_ORDER,
    ASKED_STOCK,
    ASKED_PAY,
    ASKED_CANCEL,
    ASKED_REFUND,
    ASKED_UNPAY,
    ASKED_EXTEND,
    ASKED_EVENTS,
    ASKED_KINDS
};

/* A request to a daemon, and what became of it. */
struct asked {
    uint32_t number;
    enum asked_kind kind;
    uint64_t order_id; /* to be changed */
    char sku[4], user_id[16], key[16];
    char ref[16];       /* of the payment; "": none */
    uint32_t keep;      /* units; 0: none are named */
    bool restock;       /* of a refund */
    int64_t expires_ms; /* of an extension */
    uint32_t qty;
    uint64_t after; /* of events: the reader has those up to here, and then those it is told */
    uint32_t limit, wait_s;
    const struct process *process;
    uint32_t incarnation;
    int64_t since_ns; /* when it was asked, */
    int64_t read_ns;  /* and when the daemon has read it */
    unsigned deadline_ms;
    const struct given *last; /* an order worker's last try; NULL: none has taken it */
    bool answered;
    bool nothing_done;          /* its client was told so */
    enum stock_outcome outcome; /* that its client was told; STOCK_OPEN: none, or unclear */

    /* For front.c. */
    struct asked *next;
    struct request *request; /* while it is in flight */
    bool returned;           /* by its worker */
    bool held;               /* by a worker, when its deadline came */
    bool hurried;            /* its daemon ends, and waits for no deadline */
};

void promise_requests_begin(void);

/* Notes a request to a daemon of that process, before it is sent; the caller fills in what it asks
 * for. promise_unasked takes the last one back, which was not sent. */
struct asked *promise_ask(const struct process *process, unsigned deadline_ms);
void promise_unasked(struct asked *asked);

/* The i-th request; NULL: there are no more. */
struct asked *promise_asked(size_t i);
size_t promise_asked_count(void);

/* Notes that a worker tries the order under an id. */
void promise_taken(struct asked *asked, struct given *given);

/* Notes the answer; `late`: given at the deadline, not by a worker or at once. */
void promise_told(struct asked *asked, const struct answer *answer, bool late);

/* True when the daemon that had it has died, so that nobody will answer. */
bool promise_asked_lost(const struct asked *asked);

/* Checks that the daemon of a process, which has just ended by itself, has answered everything. */
void promise_stopped(const struct process *process);

#endif
