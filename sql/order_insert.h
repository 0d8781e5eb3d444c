/* Private to sql/: orders and quotas written by prepared statements of many rows. */
#ifndef SQL_ORDER_INSERT_H
#define SQL_ORDER_INSERT_H

#include "sql/ledger_commit.h"

struct order_insert;

struct order_insert *order_insert_open(void);
void order_insert_close(struct order_insert **insert);

/* Inserts `count` orders within a transaction of db_run that has begun. Results as db_query. */
enum db_result order_insert_run(struct order_insert *insert, struct db *db,
                                const struct ledger_order *orders, size_t count);

/* Adds the units of `count` orders, which all have a limit, to their users' quotas; a user who
 * would exceed the limit fails the statement (DB_CHECK). Sorted by user, so that transactions that
 * meet in several rows wait for each other and do not deadlock. Results as db_query. */
enum db_result order_insert_quotas(struct order_insert *insert, struct db *db,
                                   const struct ledger_order *const *orders, size_t count);

#endif
