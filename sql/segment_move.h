/* Private to sql/: the moves of segments along their fences, as SQL. */
#ifndef SQL_SEGMENT_MOVE_H
#define SQL_SEGMENT_MOVE_H

#include "sql/ledger.h"
#include "sql/sql_text.h"

/* True when the move sets a fence of its own. */
bool segment_move_fenced(const struct ledger_move *move);

/* True when the moves can be made by one joint statement, and so faster than by one each. */
bool segment_move_joint(const struct ledger_move *moves, size_t count);

/* Appends the statements that make the moves. They come first in their query. */
void segment_move_text(struct sql_text *sql, bool joint, const struct ledger_move *moves,
                       size_t count);

/* After that query, in the same transaction: DB_OK when every move was made, else DB_NO. Which ones
 * were `refused` is known from single statements only. */
enum db_result segment_move_check(const struct db *db, bool joint, struct ledger_move *moves,
                                  size_t count);

#endif
