/* Private to sql/: the rows that a commit writes, by MariaDB's bulk bindings or as text. */
#ifndef SQL_COMMIT_ROWS_H
#define SQL_COMMIT_ROWS_H

#include "sql/orders/orders.h"

/* True when the server takes bulk bindings (bulk_supported); otherwise the rows are sent as one
 * text. Within db_run. */
bool commit_rows_bulk(const struct ledger *ledger);

/* The kinds of rows that orders have; no order of COMMIT_LASTING expires, and only one of
 * COMMIT_GRACE has a grace. */
enum commit_rows_kind { COMMIT_LASTING, COMMIT_EXPIRING, COMMIT_GRACE, COMMIT_KEYS, COMMIT_QUOTAS };

/* Inserts the rows of that kind for `count` orders, within db_run, after its first query. Results
 * as db_query.
 *
 * COMMIT_KEYS writes order_key; DB_DUPLICATE: a user has used one of the keys before. COMMIT_QUOTAS
 * adds the units of the orders, which all have a limit, to their users' quotas; DB_CHECK: a user
 * would exceed the limit. Both sort their orders, by user and key or by user, so that transactions
 * that meet in several rows wait for each other and do not deadlock. */
enum db_result commit_rows_insert(struct ledger *ledger, enum commit_rows_kind kind,
                                  const struct ledger_order *const *orders, size_t count);

/* A payment's row; its columns by the numbers of their enumerations. */
struct commit_payment {
    uint64_t order_id;
    const char *ref;
    uint32_t state, outcome;
};

/* Inserts payments, as told at this moment of the server, in the same way. */
enum db_result commit_rows_payments(struct ledger *ledger, const struct commit_payment *payments,
                                    size_t count);

/* Makes stock updates along the chain together, where commit_rows_bulk, in the same way.
 * `made_out`: all were made. */
enum db_result commit_rows_stock(struct ledger *ledger, const struct ledger_stock_update *updates,
                                 size_t count, bool *made_out);

#endif
