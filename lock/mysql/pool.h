/* Private to lock/: connections to one MySQL or MariaDB server, lent to one thread at a time. */
#ifndef LOCK_MYSQL_POOL_H
#define LOCK_MYSQL_POOL_H

#include "lock/driver.h"
#include "sql/db/db.h"
#include "sql/db/sql_text.h"

struct mysql_pool;

/* Makes a pool without connecting. SECLOCK_OK, SECLOCK_CONFIG (bad URL) or SECLOCK_FAILED (no
 * memory). */
enum seclock_result mysql_pool_open(const char *url, int timeout_ms, struct mysql_pool **pool_out);
void mysql_pool_close(struct mysql_pool **pool);

/* In a child of fork: closes the idle connections' descriptors, and leaks the rest. */
void mysql_pool_forget(struct mysql_pool *pool);

/* Lends a connection, a new one when all are lent; NULL: no memory. The caller gives every
 * connection back, whatever state it is in, or closes it by db_close. */
struct db *mysql_pool_take(struct mysql_pool *pool);
void mysql_pool_give(struct mysql_pool *pool, struct db *db);

/* Runs statements that may be repeated: again after a deadlock or a lock wait, once more over a new
 * connection when the first died on the way, and after making the tables of lock/ when they are
 * missing. SECLOCK_OK with the rows in `db`, SECLOCK_FAILED or
 * SECLOCK_UNKNOWN with the reason in seclock_error. */
enum seclock_result mysql_pool_query(struct db *db, const struct sql_text *sql);

/* The same; tells also whether the statements were sent again though they may have run. */
enum seclock_result mysql_pool_query_noting(struct db *db, const struct sql_text *sql,
                                            bool *repeated_out);

/* The same within the time of the handle's acquisition, of at most `timeout_ms`, which is the
 * connection's time-out. After a silent server nothing is sent again. */
enum seclock_result mysql_pool_query_for(const struct seclock_handle *handle, int timeout_ms,
                                         struct db *db, const struct sql_text *sql);

/* The least time for the answer to a renewal, when a hold is about to end: the connection serves
 * others after it. */
enum { MYSQL_RENEWAL_MS_MIN = 50 };

/* Appends text as a literal, whatever its bytes. */
void mysql_literal(struct sql_text *sql, const char *text);

/* Appends the text up to its NUL as it is. */
void mysql_raw(struct sql_text *sql, const char *text);

/* Appends the literal of a key: prefix, NUL and name; the name alone without a prefix. */
void mysql_key(struct sql_text *sql, const char *prefix, const char *name);

#endif
