/* Payments in the ledger: they pay orders, or are to be paid back; and extended reservations.
 *
 * A payment with a name (payment_ref) is told by the shop and kept for ever, in exactly one state.
 * The transaction that writes it, or changes its state together with its order, holds the order's
 * row. So whatever crashes, the order and its payments agree. */
#ifndef SQL_PAYMENTS_H
#define SQL_PAYMENTS_H

#include "sql/orders/orders.h"

enum { PAYMENT_REF_SIZE = USER_ID_SIZE }; /* its alphabet is that of user ids, see user_id_valid */

/* The names of a payment's states and outcomes, as the ledger and answers write them. */
const char *ledger_payment_state_name(enum ledger_payment_state state);
const char *ledger_payment_outcome_name(enum ledger_payment_outcome outcome);

/* The state of that name; LEDGER_PAYMENT_NONE: there is none. */
enum ledger_payment_state ledger_payment_state_of(const char *name);

/* How far an undecided payment has come. */
enum ledger_late {
    LEDGER_LATE_ASKED,       /* whether it is late is not known */
    LEDGER_LATE_NEEDS_UNITS, /* its order has expired, and must have its units again first */
    LEDGER_LATE_NO_UNITS,    /* and cannot have them: if it is late, it is too late */
};

struct ledger_payment {
    const char
        *ref; /* NULL or "": a payment without a name, of which only the order's status tells */
    enum ledger_late late;           /* in: NO_UNITS stays; out */
    enum ledger_payment_state state; /* out; NONE: not decided, or without a name */
    enum ledger_payment_outcome outcome;
    bool moved;   /* out: this call has paid the order */
    bool told;    /* out: this call has written the payment */
    bool unnamed; /* out, of ledger_pay: one without a name has paid the order */
};

static inline bool ledger_payment_named(const struct ledger_payment *payment)
{
    return payment->ref && payment->ref[0] != '\0';
}

/* Pays the orders of up to LEDGER_ORDERS_MAX records, named by `order_id`, of any sales, in one
 * transaction, and fills the records in as they are afterwards. An order is paid if it is reserved
 * and in time by the ledger's clock. A payment with a name is decided then:
 *
 *   known already ─► as it was   reserved, in time ─► taken, in time
 *   reserved, overdue ─► taken, retaken: it still has its units
 *   expired ─► not decided, NEEDS_UNITS; with NO_UNITS: due, too late
 *   paid ─► due, already paid    all else ─► due, too late
 *
 * but a sale that has late payments refunded, is in a later round or is gone makes each late
 * payment due. Of one order's payments one at a time needs units.
 * Waits for nobody: an order that another transaction is changing is not decided, try it again; of
 * a payment without a name its record stays `payable`. An id may come more than once; its payments
 * are decided in their order. LEDGER_OK: what the records and payments say is on disk, unless it
 * may still change. LEDGER_DAMAGED: nothing is paid, because the rows of an order to pay are
 * `damaged`; repeat without it. LEDGER_UNKNOWN: repeat it. */
enum ledger_result ledger_pay(struct ledger *ledger, struct ledger_record *const *records,
                              struct ledger_payment *const *payments, size_t count);

/* ---- refunds ---- */

/* Looks up the orders and the payments that pay or paid them, by order and name, and fills in both;
 * the state NONE: no such payment. Locks nothing. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_payments_find(struct ledger *ledger, struct ledger_record *const *records,
                                        struct ledger_payment *const *payments, size_t count);

/* Makes those of the payments that are due refunded, in one transaction; leaves the others alone.
 * `told`: this call has, set for one of several entries of a payment. LEDGER_OK: `state` is as it
 * is now. */
enum ledger_result ledger_refund(struct ledger *ledger, struct ledger_record *const *records,
                                 struct ledger_payment *const *payments, size_t count);

/* ---- lists ---- */

struct ledger_payment_filter {
    enum ledger_payment_state state; /* NONE stands for any, as do "" and 0 */
    char sku[IDENTIFIER_SIZE];
    uint64_t order_id;
};

/* A payment of a list, with its order as it is now. */
struct ledger_payment_row {
    uint64_t order_id;
    char ref[PAYMENT_REF_SIZE];
    char sku[IDENTIFIER_SIZE];
    char user_id[USER_ID_SIZE];
    char order_status[16];
    uint32_t round;
    enum ledger_payment_state state;
    enum ledger_payment_outcome outcome;
    char told_at[LEDGER_TIME_SIZE];
    char refunded_at[LEDGER_TIME_SIZE]; /* "": not yet */
};

/* Where a list goes on: behind this payment. */
struct ledger_payment_place {
    uint64_t order_id; /* 0: at its beginning, or there are no more */
    char ref[PAYMENT_REF_SIZE];
};

enum { LEDGER_PAYMENTS_MAX = 1000 }; /* rows that one call reads to find the wanted ones */

/* Lists up to `max` payments behind `place`, by order and name, and moves `place` on. Those due are
 * found by an index; of the others one call reads LEDGER_PAYMENTS_MAX rows, so it may find fewer
 * than there are. Leaves out damaged ones and notes them in ledger_fault. LEDGER_OK or
 * LEDGER_FAILED. */
enum ledger_result ledger_payments_list(struct ledger *ledger,
                                        const struct ledger_payment_filter *filter,
                                        struct ledger_payment_place *place, size_t max,
                                        struct ledger_payment_row *rows_out, size_t *count_out);

struct ledger_refunds_due {
    uint32_t count; /* counted up to LEDGER_DUE_COUNT_MAX */
    int64_t oldest_s;
};

enum { LEDGER_DUE_COUNT_MAX = 1000 }; /* every few seconds, for each daemon */

/* Counts the payments that are due back, but for those of sales that were retired with their
 * refunds made elsewhere. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_refunds_count(struct ledger *ledger, struct ledger_refunds_due *due_out);

/* ---- extended reservations ---- */

struct ledger_extension {
    int64_t expires_ms; /* when the order is to expire; UTC, since 1970 */
    bool moved;         /* out: this call has set it */
    bool limited;       /* out: it is later than the sale allows */
    int64_t latest_ms;  /* out: what it allows */
};

/* Lets orders that can be paid expire later, up to the sale's hold_max_s after their creation; an
 * earlier time changes nothing. Records, results and orders that are being changed as for
 * ledger_pay. */
enum ledger_result ledger_extend(struct ledger *ledger, struct ledger_record *const *records,
                                 struct ledger_extension *const *extensions, size_t count);

#endif
