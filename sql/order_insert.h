/* Orders inserted by prepared statements of many rows, which spares the server the parsing. */
#ifndef SQL_ORDER_INSERT_H
#define SQL_ORDER_INSERT_H

#include "sql/ledger_commit.h"

struct order_insert;

struct order_insert *order_insert_open(void);
void order_insert_close(struct order_insert **insert);

/* How many of `count` orders a prepared statement takes: a multiple of 16, so that few statements
 * serve all batches; what is left is cheap enough as text. */
size_t order_insert_share(size_t count);

/* Inserts `count` orders, a number that order_insert_share gave, within a transaction of db_run
 * that has begun. Results as db_query. */
enum db_result order_insert_run(struct order_insert *insert, struct db *db,
                                const struct ledger_order *orders, size_t count);

/* The same for the units of the orders' users, as user_quota_text_count, all of whom have a limit.
 */
enum db_result order_insert_quotas(struct order_insert *insert, struct db *db,
                                   const struct ledger_order *const *orders, size_t count);

#endif
