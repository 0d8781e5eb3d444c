/* Private to lock/: connections to one MySQL or MariaDB server, lent to one thread at a time. */
#ifndef LOCK_MYSQL_POOL_H
#define LOCK_MYSQL_POOL_H

#include <pthread.h>

#include "lock/driver.h"
#include "lock/process.h"
#include "sql/db/db.h"
#include "sql/db/sql_text.h"

enum {
    MYSQL_IDLE_MAX = 8,
    MYSQL_RENEWAL_MS_MIN = 50, /* for the answer to a renewal, even if a hold is about to end */
};

struct mysql_pool {
    char prefix[SECLOCK_PREFIX_MAX]; /* of every name on the server */
    int timeout_ms;                  /* of a request */
    char *url;
    struct process_guard guard;
    pthread_mutex_t mutex; /* guards all below */
    struct db *idle[MYSQL_IDLE_MAX];
    size_t idle_count;
};

/* Functions of the driver table. mysql_pool_open makes a pool without connecting: SECLOCK_OK,
 * SECLOCK_CONFIG (bad URL) or SECLOCK_FAILED (no memory). mysql_pool_forget closes the idle
 * connections' descriptors and leaks the rest. */
enum seclock_result mysql_pool_open(struct lock_core *core, const char *server, void **pool_out);
void mysql_pool_close(void *pool);
void mysql_pool_forget(void *pool);

/* Lends a connection, a new one when all are lent; NULL: no memory. The caller gives every
 * connection back, whatever state it is in, or closes it by db_close. */
struct db *mysql_pool_take(struct mysql_pool *pool);
void mysql_pool_give(struct mysql_pool *pool, struct db *db);

/* Runs statements that may be repeated: again after a deadlock or a lock wait, once over a new
 * connection when the first one is lost, and after creating missing tables of lock/. With a handle
 * only within the time of its acquisition: after a silent server nothing is sent again. SECLOCK_OK
 * with the rows in `db`, SECLOCK_FAILED or SECLOCK_UNKNOWN with the reason in seclock_error.
 * `repeated_out` (may be NULL): statements that may have run were sent again. */
enum seclock_result mysql_pool_query(const struct mysql_pool *pool,
                                     const struct seclock_handle *handle, struct db *db,
                                     const struct sql_text *sql, bool *repeated_out);

/* Appends a statement. In `format`, %k stands for the key of a name, under the pool's prefix; %t
 * for a text as a literal, whatever its bytes; %b for bytes (data and size_t) as a literal; %d for
 * an int; %u for a uint64_t. */
void mysql_write(const struct mysql_pool *pool, struct sql_text *sql, const char *format, ...);

#endif
