/* Private to sql/: stock updates, which move segments along their fences, as SQL. */
#ifndef SQL_STOCK_UPDATE_H
#define SQL_STOCK_UPDATE_H

#include "sql/orders/ledger_commit.h"
#include "sql/db/sql_text.h"

/* True when the update sets a fence of its own. */
bool stock_update_fenced(const struct ledger_stock_update *update);

/* True when one statement makes the updates together, by stock_joint_run, which pays for many. */
bool stock_update_joint(const struct ledger_stock_update *updates, size_t count);

/* Appends the statements that make the updates one by one; not for joint ones. They come first in
 * their query. */
void stock_update_text(struct sql_text *sql, const struct ledger_stock_update *updates,
                       size_t count);

/* After that query, in the same transaction: sets `refused`. DB_OK when every update was made, else
 * DB_NO. */
enum db_result stock_update_check(const struct db *db, struct ledger_stock_update *updates,
                                  size_t count);

/* The joint statement of one ledger. */
struct stock_joint;

struct stock_joint *stock_joint_open(void);
void stock_joint_close(struct stock_joint **joint);

/* Makes joint updates within db_run, after its first query, and sets `refused`; `bulk`: the server
 * takes bulk bindings. DB_OK when every update was made, DB_NO when one was refused; otherwise as
 * db_query. */
enum db_result stock_joint_run(struct stock_joint *joint, struct db *db, bool bulk,
                               struct ledger_stock_update *updates, size_t count);

#endif
