/* Payments of the simulated ledger, for the other parts of it that write them. */
#ifndef SIMULATE_LEDGER_PAY_H
#define SIMULATE_LEDGER_PAY_H

#include "sql/db/db.h"
#include "sql/payments/payments.h"

/* Writes a payment within a transaction. DB_DUPLICATE: it is there already. */
enum db_result payment_insert(struct ledger *ledger, uint64_t order_id,
                              const struct ledger_payment *payment);

/* Makes the payment that an order has taken refunded. */
enum db_result payment_refund_taken(struct ledger *ledger, uint64_t order_id);

#endif
