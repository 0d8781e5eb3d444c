/* Private to sql/: stock updates, which move segments along their fences, as SQL. */
#ifndef SQL_STOCK_UPDATE_H
#define SQL_STOCK_UPDATE_H

#include "sql/orders/orders.h"
#include "sql/db/sql_text.h"

/* True when the update sets a fence of its own. */
bool stock_update_fenced(const struct ledger_stock_update *update);

/* True when one statement should make the updates together (commit_rows_stock), where the server
 * takes bulk bindings. */
bool stock_update_joint(const struct ledger_stock_update *updates, size_t count);

/* Appends the statements that make the updates one by one. They come first in their query. */
void stock_update_text(struct sql_text *sql, const struct ledger_stock_update *updates,
                       size_t count);

/* After that query, in the same transaction: sets `refused`. DB_OK when every update was made, else
 * DB_NO. */
enum db_result stock_update_check(const struct db *db, struct ledger_stock_update *updates,
                                  size_t count);

#endif
