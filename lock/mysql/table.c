/* Locks by a row of the MySQL table distributed_lock, with owner, count, fence and lease. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/driver.h"
#include "lock/mysql/pool.h"
#include "lock/text.h"

/* one_statement_decides: each change is one UPDATE by primary key whose WHERE holds all conditions,
 * by the server's clock, in a transaction of its own. The SELECT that follows in the same packet
 * only reads the row. Column assignments use no column to their left, so that every order of
 * evaluation gives the same result.
 *
 * each_hold_by_its_request: `request_id` lists the requests whose holds the owner has now,
 * `release_id` the last requests that were released. A repeated request finds itself in one of
 * them, and is not counted again. */

enum { RELEASES_SIZE = 640 }; /* bytes of release_id: at least the last eight */

/* The row after a change. */
struct row {
    bool found;
    bool holds, released; /* the request is among its holds, among its releases */
    char owner[SECLOCK_TOKEN_MAX];
    uint64_t fence;
    int hold_count;
    int64_t left_ms;  /* of the lease; 0: nobody holds it */
    uint64_t changed; /* rows changed by the first statement */
    bool repeated;    /* the statements may have run twice */
};

static bool true_column(const char *column)
{
    return column && column[0] != '0';
}

/* Reads the row, which may show another client's later change, as it follows the change in the
 * packet; the two flags for the request tell what became of ours. */
static void row_read(struct db *db, struct row *row_out)
{
    char **columns = db_row(db);
    *row_out = (struct row){.found = columns != NULL, .changed = db_affected(db, 0)};
    if (!columns)
        return;
    snprintf(row_out->owner, SECLOCK_TOKEN_MAX, "%s", columns[0] ? columns[0] : "");
    row_out->holds = true_column(columns[1]);
    row_out->released = true_column(columns[2]);
    row_out->fence = strtoull(columns[3], NULL, 10);
    row_out->hold_count = (int)strtol(columns[4], NULL, 10);
    row_out->left_ms = strtoll(columns[5], NULL, 10);
}

/* ---- statements ---- */

#define LEASE "(NOW(6)+INTERVAL %d000 MICROSECOND)"
#define MINE "owner<=>%t AND expires_at>NOW(6)" /* this owner holds the lock */

/* The row has the hold. An acquisition after the end of the lease, even by the same owner, removes
 * the request from the list: then the hold is lost for good. */
#define HELD "name=%k AND hold_count>0 AND expires_at>NOW(6) AND FIND_IN_SET(%t,request_id)"

/* Lists of requests have a comma after each. */
#define ITEM "CONCAT(%t,',')"

/* Takes a free or expired row, with a new fence; or once more for its owner, with the old fence and
 * at least the old lease. A repeat of a request renews the lease and is not counted again: a caller
 * whose earlier tries were not answered counts the lease from this one. */
static void acquire_text(const struct mysql_pool *pool, const struct seclock_handle *handle,
                         struct sql_text *sql)
{
    const char *owner = handle->owner, *request = handle->request;
    int lease_ms = handle->lease_ms;
    assert(lease_ms > 0 && !strchr(request, ','));
    mysql_write(pool, sql,
                "UPDATE distributed_lock SET fence=IF(" MINE ",fence,"
                "GREATEST(fence+1,CAST(UNIX_TIMESTAMP(NOW(6))*1000000 AS UNSIGNED))),"
                "hold_count=IF(" MINE ",hold_count+(FIND_IN_SET(%t,request_id)=0),1),"
                "request_id=CONCAT(IF(" MINE ",REPLACE(request_id," ITEM ",''),'')," ITEM "),"
                "expires_at=IF(" MINE ",GREATEST(expires_at," LEASE ")," LEASE "),"
                "owner=%t WHERE name=%k AND(hold_count=0 OR expires_at<=NOW(6) OR owner=%t);",
                owner, owner, request, owner, request, request, owner, lease_ms, lease_ms, owner,
                handle->name, owner);
}

/* why_a_counter: the server counts only rows that change, and a lease may stay equal: so each
 * renewal adds to a counter, and the number of rows tells whether the hold was there. Several
 * renewals share a transaction, and so one write to the disk. */
static void renew_text(const struct mysql_pool *pool, struct seclock_handle *const *handles,
                       size_t count, struct sql_text *sql)
{
    assert(count > 0);
    if (count > 1)
        mysql_write(pool, sql, "START TRANSACTION;");
    for (size_t i = 0; i < count; i++)
        mysql_write(pool, sql,
                    "UPDATE distributed_lock SET renewals=renewals+1,"
                    "expires_at=GREATEST(expires_at," LEASE ") WHERE " HELD ";",
                    (int)handles[i]->lease_ms, handles[i]->name, handles[i]->request);
    if (count > 1)
        mysql_write(pool, sql, "COMMIT");
}

static void release_text(const struct mysql_pool *pool, const struct seclock_handle *handle,
                         struct sql_text *sql)
{
    const char *request = handle->request;
    mysql_write(pool, sql,
                "UPDATE distributed_lock SET owner=IF(hold_count>1,owner,NULL),"
                "expires_at=IF(hold_count>1,expires_at,NOW(6)),hold_count=hold_count-1,"
                "release_id=LEFT(CONCAT(" ITEM ",IFNULL(release_id,'')),%d),"
                "request_id=REPLACE(request_id," ITEM ",'') WHERE " HELD ";",
                request, RELEASES_SIZE, request, handle->name, request);
}

/* ---- running them ---- */

/* Sends the statements, and in the same packet the SELECT of the lock's row; then frees them.
 * `handle` (may be NULL) gives the request, and the time of its acquisition as a bound. */
static enum seclock_result run(struct mysql_pool *pool, struct sql_text *sql,
                               const struct seclock_handle *handle, const char *name,
                               struct row *row_out)
{
    assert(name[0] != '\0');
    *row_out = (struct row){0};
    const char *request = handle ? handle->request : "";
    enum seclock_result result = SECLOCK_FAILED;
    struct db *db = mysql_pool_take(pool);
    mysql_write(
        pool, sql,
        "SELECT owner,FIND_IN_SET(%t,request_id),FIND_IN_SET(%t,release_id),fence,hold_count,"
        "IF(hold_count=0,0,CEIL(GREATEST("
        "TIMESTAMPDIFF(MICROSECOND,NOW(6),expires_at),0)/1000)) "
        "FROM distributed_lock WHERE name=%k",
        request, request, name);
    if (db) {
        bool repeated;
        result = mysql_pool_query(pool, handle, db, sql, &repeated);
        if (result == SECLOCK_OK)
            row_read(db, row_out);
        row_out->repeated = repeated;
        mysql_pool_give(pool, db);
    }
    sql_free(sql);
    return result;
}

static enum seclock_result acquire_once(struct mysql_pool *pool,
                                        const struct seclock_handle *handle, struct row *row_out)
{
    struct sql_text sql = {0};
    acquire_text(pool, handle, &sql);
    return run(pool, &sql, handle, handle->name, row_out);
}

/* Inserts the row only when the UPDATE finds none: once per name, not once per acquisition. If the
 * INSERT is not answered, the lock is free with or without the row, so there is no doubt. */
static enum seclock_result table_acquire(void *self, struct seclock_handle *handle)
{
    assert(handle->lease_ms > 0);
    struct row row;
    enum seclock_result result = acquire_once(self, handle, &row);
    if (result == SECLOCK_OK && !row.found) {
        struct sql_text sql = {0};
        mysql_write(self, &sql,
                    "INSERT IGNORE INTO distributed_lock(name,expires_at)VALUES(%k,NOW(6));",
                    handle->name);
        if (run(self, &sql, handle, handle->name, &row) != SECLOCK_OK)
            return SECLOCK_FAILED;
        result = acquire_once(self, handle, &row);
    }
    if (result != SECLOCK_OK)
        return result;
    if (row.holds && row.left_ms > 0) { /* from now, or from the first of two sendings */
        handle->fence = row.fence;
        handle->hold_count = row.hold_count;
        return SECLOCK_OK;
    }
    assert(row.found || row.left_ms == 0);
    handle->busy_ms = row.left_ms;
    return SECLOCK_BUSY;
}

/* ---- renew ---- */

/* Learns the fence of a hold whose acquisition was not answered. */
static void learn_fence(struct mysql_pool *pool, struct seclock_handle *handle)
{
    assert(handle->fence == 0);
    struct sql_text sql = {0};
    struct row row;
    if (run(pool, &sql, handle, handle->name, &row) == SECLOCK_OK && row.holds) {
        handle->fence = row.fence;
        handle->hold_count = row.hold_count;
    }
}

static enum db_result renew_once(struct db *db, const struct sql_text *sql, int wait_ms)
{
    assert(wait_ms > 0);
    db_set_timeout(db, wait_ms);
    enum db_result result = db_query(db, sql->text, sql->length);
    if (result != DB_OK && db_connected(db))
        db_query(db, "ROLLBACK", 8);
    return result;
}

/* Repeats a renewal after a lost connection, on a new one, and after a transaction that the server
 * rolled back. But nobody waits twice for a silent server, because the watchdog has other locks to
 * renew. */
static enum db_result renew_in_time(const struct mysql_pool *pool, struct db *db,
                                    struct seclock_handle *const *handles, size_t count,
                                    const struct sql_text *sql)
{
    int64_t (*now_ns)(void) = handles[0]->now_ns;
    int half_ms = handle_renewal_ms(handles, count, MYSQL_RENEWAL_MS_MIN, pool->timeout_ms) / 2;
    assert(half_ms > 0);
    int64_t began_ns = now_ns();
    enum db_result result = renew_once(db, sql, 2 * half_ms);
    if (result != DB_OK && now_ns() - began_ns < half_ms * INT64_C(1000000))
        result = renew_once(db, sql, half_ms);
    db_set_timeout(db, pool->timeout_ms);
    return result;
}

/* Locks a batch's rows in the order of their names, which prevents deadlocks. */
static void table_renew(void *self, struct seclock_handle *const *handles, size_t count,
                        enum seclock_result *results_out)
{
    struct mysql_pool *pool = self;
    assert(count > 0 && count <= LOCK_RENEWALS_MAX);
    struct sql_text sql = {0};
    struct db *db = mysql_pool_take(pool);
    const size_t first = count > 1; /* UPDATE: START TRANSACTION comes before */
    renew_text(pool, handles, count, &sql);
    enum db_result result = db ? renew_in_time(pool, db, handles, count, &sql) : DB_FAILED;
    for (size_t i = 0; i < count; i++) {
        if (result == DB_OK)
            results_out[i] = db_affected(db, first + i) > 0 ? SECLOCK_OK : SECLOCK_LOST;
        else
            results_out[i] = db && db_in_doubt(db) ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
    }
    if (db && result != DB_OK)
        lock_set_error("mysql: %s", db_error(db));
    if (db)
        mysql_pool_give(pool, db);
    sql_free(&sql);
    for (size_t i = 0; i < count; i++)
        if (results_out[i] == SECLOCK_OK && handles[i]->fence == 0)
            learn_fence(pool, handles[i]);
}

/* ---- elections ---- */

#define LATER                                                                                      \
    "VALUES(fence)>lock_leader.fence OR"                                                           \
    "(VALUES(fence)=lock_leader.fence AND VALUES(number)>=lock_leader.number)"

/* Writes the record of a holder; the SELECT then tells whether it was written, now or by the first
 * of two sendings. The fence is assigned last, because MySQL compares with what it has assigned. */
static void proclaim_text(const struct mysql_pool *pool, const struct seclock_handle *handle,
                          struct sql_text *sql)
{
    mysql_write(pool, sql,
                "INSERT INTO lock_leader(name,fence,number,holder,value)"
                "SELECT name,fence,%u,owner,%t FROM distributed_lock WHERE " HELD
                "ON DUPLICATE KEY UPDATE value=IF(" LATER ",VALUES(value),lock_leader.value),"
                "holder=IF(" LATER ",VALUES(holder),holder),"
                "number=IF(" LATER ",VALUES(number),lock_leader.number),"
                "fence=GREATEST(lock_leader.fence,VALUES(fence));",
                handle->value_number, handle->value, handle->name, handle->request);
    mysql_write(pool, sql, "SELECT 1 FROM lock_leader WHERE name=%k AND fence=%u AND number>=%u",
                handle->name, (uint64_t)handle->fence, handle->value_number);
}

/* why_two_steps: a record of a hold that has ended does no harm, since it does not count. So the
 * renewal need not be in the transaction of the record. */
static enum seclock_result table_proclaim(void *self, struct seclock_handle *handle)
{
    struct sql_text sql = {0};
    struct db *db = mysql_pool_take(self);
    if (!db)
        return SECLOCK_FAILED;
    proclaim_text(self, handle, &sql);
    enum seclock_result result = mysql_pool_query(self, NULL, db, &sql, NULL);
    if (result == SECLOCK_OK && !db_row(db))
        result = SECLOCK_LOST;
    mysql_pool_give(self, db);
    sql_free(&sql);
    if (result != SECLOCK_OK)
        return result;
    table_renew(self, &handle, 1, &result);
    return result == SECLOCK_FAILED ? SECLOCK_UNKNOWN : result;
}

static enum seclock_result table_leader(const struct lock_driver *driver, void *self,
                                        const char *name, struct seclock_leader *leader_out)
{
    (void)driver;
    struct sql_text sql = {0};
    struct db *db = mysql_pool_take(self);
    if (!db)
        return SECLOCK_FAILED;
    mysql_write(self, &sql,
                "SELECT l.fence,l.holder,l.value FROM lock_leader l JOIN distributed_lock d "
                "USING(name,fence)WHERE name=%k AND d.hold_count>0 AND d.expires_at>NOW(6)",
                name);
    enum seclock_result result = mysql_pool_query(self, NULL, db, &sql, NULL);
    char **row = result == SECLOCK_OK ? db_row(db) : NULL;
    if (row) {
        leader_out->led = true;
        leader_out->term = strtoull(row[0], NULL, 10);
        snprintf(leader_out->holder, sizeof leader_out->holder, "%s", row[1]);
        snprintf(leader_out->value, sizeof leader_out->value, "%s", row[2]);
    }
    mysql_pool_give(self, db);
    sql_free(&sql);
    return result;
}

/* ---- release, status, break ---- */

static enum seclock_result table_release(void *self, struct seclock_handle *handle)
{
    struct sql_text sql = {0};
    struct row row;
    release_text(self, handle, &sql);
    enum seclock_result result = run(self, &sql, handle, handle->name, &row);
    if (result != SECLOCK_OK)
        return result;
    /* No row, but the request is among the releases: the first of two sendings did it. */
    return row.changed > 0 || row.released ? SECLOCK_OK : SECLOCK_LOST;
}

static enum seclock_result table_status(const struct lock_driver *driver, void *self,
                                        const char *name, struct seclock_status *status_out)
{
    (void)driver;
    struct sql_text sql = {0};
    struct row row;
    enum seclock_result result = run(self, &sql, NULL, name, &row);
    status_out->held = row.hold_count > 0 && row.left_ms > 0;
    status_out->count = status_out->held ? row.hold_count : 0;
    status_out->remaining_ms = status_out->held ? row.left_ms : 0;
    status_out->fence = row.fence;
    if (status_out->held)
        strcpy(status_out->holder, row.owner);
    return result;
}

static enum seclock_result table_break(const struct lock_driver *driver, void *self,
                                       const char *name)
{
    (void)driver;
    struct sql_text sql = {0};
    struct row row;
    mysql_write(self, &sql,
                "UPDATE distributed_lock SET owner=NULL,hold_count=0,request_id=NULL,"
                "expires_at=NOW(6) WHERE hold_count>0 AND expires_at>NOW(6) AND name=%k;",
                name);
    enum seclock_result result = run(self, &sql, NULL, name, &row);
    return result == SECLOCK_OK && row.changed == 0 ? lock_none_held(row.repeated) : result;
}

const struct lock_driver mysql_table_driver = {
    .kind = SECLOCK_KIND_TABLE,
    .features = LOCK_RENEWS,
    .poll_ms_min = 10,
    .poll_ms_max = 200,
    .open = mysql_pool_open,
    .close = mysql_pool_close,
    .forget = mysql_pool_forget,
    .acquire = table_acquire,
    .renew = table_renew,
    .proclaim = table_proclaim,
    .leader = table_leader,
    .release = table_release,
    .status = table_status,
    .break_lock = table_break,
};
