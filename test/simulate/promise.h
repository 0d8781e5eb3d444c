/* Checks the service's promises against the answers and the ledger. */
#ifndef SIMULATE_PROMISE_H
#define SIMULATE_PROMISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stock/stock.h"

struct chance;
struct process;
struct stock_status_change;
struct txn;
struct version;

enum { GIVEN_MAX = 16384, VIOLATION_SIZE = 256 };

/* An order that was given to stock_sell under one id, and what became of it. */
struct given {
    uint64_t order_id;
    const struct process *process; /* whose worker has it */
    char sku[4], user_id[16], key[16];
    uint32_t qty;
    int64_t since_ns, created_ms;
    int64_t until_ns; /* when its time is over */
    bool answered;    /* false: the process died before */
    enum stock_outcome outcome;
};

void promise_begin(void);

/* The first promise that was broken, in words; NULL: none. */
const char *promise_broken(void);
void promise_break(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Notes an order before it is sold, and the answer to it. */
struct given *promise_give(const struct stock_order *order);
void promise_answer(struct given *given, const struct stock_order *order);

/* Checks further answers of daemons: a replay of that order; a refusal of it, by its sku, user,
 * key, qty and since_ns; what was refused from memory, or as closed, asked for at `since_ns`; and
 * units told as left, at some time since then. */
void promise_replayed(const struct given *given, uint64_t order_id);
void promise_refused(const struct given *given);
void promise_sold_out(const char *sku, uint32_t qty, int64_t since_ns,
                      const struct process *process);
void promise_closed(const char *sku, int64_t since_ns, const struct process *process);
void promise_stock(const char *sku, uint32_t round, uint32_t left, int64_t since_ns,
                   const struct process *process);

/* Checks that an order, looked for since that time, is told as unknown. */
void promise_unknown(uint64_t order_id, int64_t since_ns);

/* Notes that a daemon has heard of a change by that message of the channel; NULL: it has forgotten
 * all sales. */
void promise_heard(const struct process *process, const char *message);

/* The i-th order given; NULL: there are no more. */
const struct given *promise_given(size_t i);
size_t promise_given_count(void);

/* The id of an order that was perhaps accepted, by chance; 1, which no order has, without any. */
uint64_t promise_pick_order(struct chance *chance);

/* Notes what was answered to a payment, or a cancellation. */
void promise_state(const struct stock_status_change *change, const char *wanted);

/* Notes a status that an order was told to have. */
void promise_status(uint64_t order_id, const char *status);

/* Notes a restock, or a reset, before it begins, as it may be done from then on; and its answer.
 * Under a key, "" for none, it is done once. */
void promise_restock_begin(const char *sku, const char *key, uint32_t units);
void promise_restock_end(const char *sku, bool done, bool doubt);
void promise_reset_begin(const char *sku, const char *key);
void promise_reset_end(const char *sku, bool done, bool doubt);

/* Notes that a sale was answered as retired in this round. */
void promise_retired(const char *sku, uint32_t round);

/* Checks what Redis says now of each segment that is settled where the ledger is. */
void promise_redis(void);

/* Checks that nothing was in vain for a worker while nothing has failed. */
void promise_calm(const struct stock_stats *stats);

/* Checks how long a batch took that began at `start_ns`, if nothing but held rows can have kept
 * it. */
void promise_prompt(int64_t start_ns);

/* Units that the ledger has left of the present round; 0 when there is no sale. */
uint32_t promise_left(const char *sku);

/* An order of the sku that is reserved, of whatever round; with `overdue`, one whose time to pay is
 * over. 0: there is none. */
uint64_t promise_reserved(const char *sku, bool overdue);

/* ---- for the other files of promises ---- */

/* For how long a call may go by what it knew before; true when the sale has had fewer units than
 * that, or has changed its settings or its round, at some time since. */
int64_t promise_grace_ms(void);
bool promise_was_short(const char *sku, uint32_t qty, int64_t since_ns);

/* True when the sale has let late payments of a user with so many units have theirs ever since. */
bool promise_takes_late(const char *sku, uint32_t units, int64_t since_ns);

/* When an order's time to pay is over, 0 for never, and the units that it holds. */
int64_t promise_due_ms(const struct version *order);
uint32_t promise_held(const struct version *order);

bool promise_settings_changed(const char *sku, int64_t since_ns);

/* After each commit; and at the end of a schedule, when nothing is under way any more. */
void promise_commit(const struct txn *txn);
void promise_end(void);

#endif
