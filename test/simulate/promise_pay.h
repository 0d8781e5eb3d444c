/* Checks what is told of payments, refunds, extended reservations and parts of orders. */
#ifndef SIMULATE_PROMISE_PAY_H
#define SIMULATE_PROMISE_PAY_H

#include "stock/returns/returns.h"
#include "test/simulate/promise.h"

struct txn;
struct chance;

void promise_pay_begin(void);

/* Notes that a payment is told, as it may be done from then on. */
void promise_payment_begin(uint64_t order_id, const char *ref);

/* Checks and notes the answers to calls that were made since that time: a payment with a name; a
 * refund; a payment that has failed; an extension; a part of an order that a cancel has left. */
void promise_payment(const struct stock_status_change *change, int64_t since_ns);
void promise_refund(const struct stock_status_change *change, int64_t since_ns);
void promise_unpay(const struct stock_status_change *change, int64_t since_ns);
void promise_extend(const struct stock_status_change *change, int64_t since_ns);
void promise_kept(const struct stock_status_change *change);

/* Checks that a sale was retired although no payment was due since `since_ns`, by an operator who
 * did not say that they are refunded elsewhere; and that it was kept for a payment that was due. */
void promise_no_refunds(const char *sku, int64_t since_ns);
void promise_refunds_due(const char *sku);

/* An order of that status, by chance; 1, which no order has, without any. */
uint64_t promise_pick_status(struct chance *chance, enum ledger_status status);

/* A payment that was told, by chance. False: there is none. */
bool promise_pick_payment(struct chance *chance, uint64_t *order_id_out, const char **ref_out);

/* An order of the sale that has expired, of its present round, or of one that is over or gone; 0:
 * there is none. */
uint64_t promise_expired(const char *sku, bool present);

/* The payment has been told, and is decided. */
bool promise_is_decided(uint64_t order_id, const char *ref);

/* After each commit, and at the end. */
void promise_pay_commit(const struct txn *txn);
void promise_pay_end(void);

#endif
