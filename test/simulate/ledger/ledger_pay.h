/* Payments of the simulated ledger, for the other parts of it that write them. */
#ifndef SIMULATE_LEDGER_PAY_H
#define SIMULATE_LEDGER_PAY_H

#include "sql/db/db.h"
#include "sql/payments/payments.h"

struct row;
struct version;

/* Writes a payment within a transaction. DB_DUPLICATE: it is there already. */
enum db_result payment_insert(struct ledger *ledger, uint64_t order_id,
                              const struct ledger_payment *payment);

/* The first payment by name that is due for an order that this transaction has locked, locked as
 * well; NULL: there is none, or others have locked it. */
struct row *payment_next(struct ledger *ledger, uint64_t order_id);

/* The name of the payment that pays an order; NULL: none does. */
const char *payment_taken(const struct ledger *ledger, uint64_t order_id);

/* Changes a payment's state; one that was due is listed no more. DB_NO: it has another state. */
enum db_result payment_move(struct ledger *ledger, uint64_t order_id, const char *ref,
                            enum ledger_payment_state from, enum ledger_payment_state to);

/* Lets a changed order expire when its time is over. */
enum db_result expiry_write(struct ledger *ledger, const struct version *order);

#endif
