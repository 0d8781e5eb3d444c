/* Private to sql/: the moves of segments along their fences, as SQL. */
#ifndef SQL_STOCK_UPDATE_H
#define SQL_STOCK_UPDATE_H

#include "sql/ledger_commit.h"
#include "sql/sql_text.h"

/* True when the move sets a fence of its own. */
bool stock_update_fenced(const struct ledger_stock_update *move);

/* True when the moves can be made by one joint statement, and so faster than by one each. */
bool stock_update_joint(const struct ledger_stock_update *moves, size_t count);

/* Appends the statements that make the moves. They come first in their query. */
void stock_update_text(struct sql_text *sql, bool joint, const struct ledger_stock_update *moves,
                       size_t count);

/* After that query, in the same transaction: DB_OK when every move was made, else DB_NO. A joint
 * statement does not tell which were `refused`: then all of them are. */
enum db_result stock_update_check(const struct db *db, bool joint,
                                  struct ledger_stock_update *moves, size_t count);

#endif
