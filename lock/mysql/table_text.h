/* Private to lock/: the statements of the table lock, as text. */
#ifndef LOCK_MYSQL_TABLE_TEXT_H
#define LOCK_MYSQL_TABLE_TEXT_H

#include "lock/handle.h"
#include "sql/db/sql_text.h"

/* Appends the SELECT of a lock's row: owner, whether `request` is among its holds, whether among
 * its releases, fence, hold count, ms left of the lease. */
void table_select_text(const char *prefix, const char *name, const char *request,
                       struct sql_text *sql);

/* Append UPDATEs, each of which changes a row if it does what its name says. */
void table_acquire_text(const char *prefix, const struct seclock_handle *handle,
                        struct sql_text *sql);
void table_release_text(const char *prefix, const struct seclock_handle *handle,
                        struct sql_text *sql);
void table_break_text(const char *prefix, const char *name, struct sql_text *sql);

/* Appends one UPDATE, or a transaction of several, in the order given. */
void table_renew_text(const char *prefix, struct seclock_handle *const *handles, size_t count,
                      struct sql_text *sql);

#endif
