/* Private to sql/: rows of orders, of their keys and of their users' quotas, written by prepared
 * statements. */
#ifndef SQL_ORDER_INSERT_H
#define SQL_ORDER_INSERT_H

#include "sql/orders/ledger_commit.h"

struct order_insert;

struct order_insert *order_insert_open(void);
void order_insert_close(struct order_insert **insert);

/* Whether MariaDB's bulk bindings are used where the server takes them, as they are unless a test
 * wants the statements that MySQL gets. */
void order_insert_allow_bulk(struct order_insert *insert, bool allowed);

/* True when the rows are written by bulk bindings. Within db_run, after its first query. */
bool order_insert_has_bulk(struct order_insert *insert, struct db *db);

/* Inserts `count` orders within a transaction of db_run, after its first query. Results as
 * db_query. */
enum db_result order_insert_run(struct order_insert *insert, struct db *db,
                                const struct ledger_order *const *orders, size_t count);

/* Inserts the rows of order_key for `count` orders. DB_DUPLICATE: a user has used one of the keys
 * before. Sorted by user and key, so that transactions that meet in several rows wait for each
 * other and do not deadlock. Results as db_query. */
enum db_result order_insert_keys(struct order_insert *insert, struct db *db,
                                 const struct ledger_order *const *orders, size_t count);

/* Adds the units of `count` orders, which all have a limit, to their users' quotas; a user who
 * would exceed the limit fails the statement (DB_CHECK). Sorted by user, for the same reason.
 * Results as db_query. */
enum db_result order_insert_quotas(struct order_insert *insert, struct db *db,
                                   const struct ledger_order *const *orders, size_t count);

#endif
