/* The table lock on MySQL: a row of distributed_lock with owner, count, fence and lease. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/driver.h"
#include "lock/mysql_table.h"
#include "lock/text.h"

/* one_statement_decides: each change is one UPDATE by primary key whose WHERE holds all conditions,
 * by the server's clock, in a transaction of its own. The SELECT behind it, in the same packet,
 * only tells how the row looks now. Column assignments use no column that stands to their left, so
 * it does not matter in which order a server evaluates them.
 *
 * each_hold_by_its_request: `request_id` lists the requests whose holds the owner has now,
 * `release_id` the last ones that were given back. A repeated request finds itself in one of them,
 * and is not counted again. */

enum {
    RENEWALS_MAX = 256, /* in one transaction */
    RELEASES_SIZE = 640 /* bytes of release_id: at least the last eight */
};

struct table {
    struct mysql_pool *pool;
    int timeout_ms;
    char prefix[SECLOCK_PREFIX_MAX];
};

/* The row after a change. */
struct row {
    bool found;
    bool holds, released; /* the request that was asked about is among its holds, its releases */
    char owner[SECLOCK_TOKEN_MAX];
    uint64_t fence;
    int hold_count;
    int64_t left_ms; /* of the lease; 0: nobody holds it */
};

static bool true_column(const char *column)
{
    return column && column[0] != '0';
}

static void row_read(struct db *db, struct row *row_out)
{
    char **columns = db_row(db);
    *row_out = (struct row){.found = columns != NULL};
    if (!columns)
        return;
    snprintf(row_out->owner, SECLOCK_TOKEN_MAX, "%s", columns[0] ? columns[0] : "");
    row_out->holds = true_column(columns[1]);
    row_out->released = true_column(columns[2]);
    row_out->fence = strtoull(columns[3], NULL, 10);
    row_out->hold_count = atoi(columns[4]);
    row_out->left_ms = strtoll(columns[5], NULL, 10);
}

static enum seclock_result table_open(const struct lock_context *context, void **self_out)
{
    struct table *table = calloc(1, sizeof *table);
    if (!table) {
        lock_set_error("out of memory");
        return SECLOCK_FAILED;
    }
    table->timeout_ms = context->timeout_ms;
    strcpy(table->prefix, context->prefix);
    enum seclock_result result =
        mysql_pool_open(context->server, context->timeout_ms, &table->pool);
    if (result == SECLOCK_OK)
        *self_out = table;
    else
        free(table);
    return result;
}

static void table_close(void *self)
{
    struct table *table = self;
    mysql_pool_close(&table->pool);
    free(table);
}

static void table_forget(void *self)
{
    mysql_pool_forget(((struct table *)self)->pool);
}

struct mysql_pool *mysql_table_pool(void *table)
{
    return ((struct table *)table)->pool;
}

/* " FIND_IN_SET" of a request in a column that lists some. */
static void in_list(struct sql_text *sql, const char *request, const char *column)
{
    mysql_raw(sql, " FIND_IN_SET(");
    mysql_literal(sql, request);
    sql_printf(sql, ",%s)", column);
}

static void select_row(const struct table *table, const char *name, const char *request,
                       struct sql_text *sql)
{
    mysql_raw(sql, "SELECT owner,");
    in_list(sql, request, "request_id");
    mysql_raw(sql, ",");
    in_list(sql, request, "release_id");
    mysql_raw(sql, ",fence,hold_count,IF(hold_count=0,0,CEIL(GREATEST("
                   "TIMESTAMPDIFF(MICROSECOND,NOW(6),expires_at),0)/1000)) "
                   "FROM distributed_lock WHERE name=");
    mysql_key(sql, table->prefix, name);
}

/* Sends the statements followed by the row's SELECT with regard to a request (or ""). What is
 * counted in `affected_out` are the first one's rows. */
static enum seclock_result run_and_look(struct table *table, struct sql_text *sql, const char *name,
                                        const char *request, struct row *row_out,
                                        uint64_t *affected_out)
{
    *row_out = (struct row){0};
    *affected_out = 0;
    struct db *db = mysql_pool_take(table->pool);
    if (!db)
        return SECLOCK_FAILED;
    select_row(table, name, request, sql);
    enum seclock_result result = mysql_pool_query(db, sql);
    if (result == SECLOCK_OK) {
        *affected_out = db_affected(db, 0);
        row_read(db, row_out);
    }
    mysql_pool_give(table->pool, db);
    return result;
}

static void lease_literal(struct sql_text *sql, int lease_ms)
{
    sql_printf(sql, "(NOW(6)+INTERVAL %d000 MICROSECOND)", lease_ms);
}

/* "IF(" it is held by this owner ",". */
static void if_mine(const struct seclock_handle *handle, struct sql_text *sql)
{
    mysql_raw(sql, "IF(owner<=>");
    mysql_literal(sql, handle->owner);
    mysql_raw(sql, " AND expires_at>NOW(6),");
}

static void list_item(struct sql_text *sql, const char *request)
{
    char item[SECLOCK_TOKEN_MAX + 1];
    snprintf(item, sizeof item, "%s,", request);
    mysql_literal(sql, item);
}

/* Takes a row that is free or expired with a new fence, or one more time by its owner with the old
 * one, who never loses time by it. The same request is not counted again. */
static void acquire_text(const struct table *table, const struct seclock_handle *handle,
                         struct sql_text *sql)
{
    mysql_raw(sql, "UPDATE distributed_lock SET fence=");
    if_mine(handle, sql);
    mysql_raw(sql, "fence,GREATEST(fence+1,CAST(UNIX_TIMESTAMP(NOW(6))*1000000 AS UNSIGNED))),"
                   "hold_count=");
    if_mine(handle, sql);
    mysql_raw(sql, "hold_count+1,1),request_id=CONCAT(");
    if_mine(handle, sql);
    mysql_raw(sql, "request_id,''),");
    list_item(sql, handle->request);
    mysql_raw(sql, "),expires_at=");
    if_mine(handle, sql);
    mysql_raw(sql, "GREATEST(expires_at,");
    lease_literal(sql, handle->lease_ms);
    mysql_raw(sql, "),");
    lease_literal(sql, handle->lease_ms);
    mysql_raw(sql, "),owner=");
    mysql_literal(sql, handle->owner);
    mysql_raw(sql, " WHERE name=");
    mysql_key(sql, table->prefix, handle->name);
    mysql_raw(sql, " AND(hold_count=0 OR expires_at<=NOW(6) OR(owner=");
    mysql_literal(sql, handle->owner);
    mysql_raw(sql, " AND NOT");
    in_list(sql, handle->request, "request_id");
    mysql_raw(sql, "));");
}

/* A row that was never there begins as one that is free. If this is not answered nobody holds it
 * then, either: whether there is a row does not matter. */
static enum seclock_result make_row(struct table *table, const char *name)
{
    struct sql_text sql = {0};
    struct row row;
    uint64_t affected;
    mysql_raw(&sql, "INSERT IGNORE INTO distributed_lock(name,expires_at)VALUES(");
    mysql_key(&sql, table->prefix, name);
    mysql_raw(&sql, ",NOW(6));");
    enum seclock_result result = run_and_look(table, &sql, name, "", &row, &affected);
    sql_free(&sql);
    return result == SECLOCK_UNKNOWN ? SECLOCK_FAILED : result;
}

static enum seclock_result acquire_once(struct table *table, const struct seclock_handle *handle,
                                        struct row *row_out)
{
    struct sql_text sql = {0};
    uint64_t affected;
    acquire_text(table, handle, &sql);
    enum seclock_result result =
        run_and_look(table, &sql, handle->name, handle->request, row_out, &affected);
    sql_free(&sql);
    return result;
}

static enum seclock_result table_acquire(void *self, struct seclock_handle *handle)
{
    struct table *table = self;
    struct row row;
    enum seclock_result result = acquire_once(table, handle, &row);
    if (result == SECLOCK_OK && !row.found) {
        result = make_row(table, handle->name);
        if (result == SECLOCK_OK)
            result = acquire_once(table, handle, &row);
    }
    if (result != SECLOCK_OK)
        return result;
    if (row.holds && row.left_ms > 0) {
        handle->fence = row.fence;
        handle->hold_count = row.hold_count;
        return SECLOCK_OK;
    }
    handle->busy_ms = row.left_ms;
    return SECLOCK_BUSY;
}

/* " WHERE" the row has the hold, which it has lost for good once somebody has taken it after the
 * lease had ended, the same owner included. */
static void where_held(const struct table *table, const struct seclock_handle *handle,
                       struct sql_text *sql)
{
    mysql_raw(sql, " WHERE name=");
    mysql_key(sql, table->prefix, handle->name);
    mysql_raw(sql, " AND hold_count>0 AND expires_at>NOW(6) AND");
    in_list(sql, handle->request, "request_id");
}

/* Every renewal changes its row, by the counter, so that the number of rows tells whether it was
 * there. One transaction for several, for one write to the disk. */
static void renew_text(const struct table *table, struct seclock_handle *const *handles,
                       size_t count, struct sql_text *sql)
{
    if (count > 1)
        mysql_raw(sql, "START TRANSACTION;");
    for (size_t i = 0; i < count; i++) {
        mysql_raw(sql, "UPDATE distributed_lock SET renewals=renewals+1,expires_at="
                       "GREATEST(expires_at,");
        lease_literal(sql, handles[i]->lease_ms);
        mysql_raw(sql, ")");
        where_held(table, handles[i], sql);
        if (count > 1)
            mysql_raw(sql, ";");
    }
    if (count > 1)
        mysql_raw(sql, "COMMIT");
}

/* Learns the fence of a hold whose acquisition was not answered. */
static void learn_fence(struct table *table, struct seclock_handle *handle)
{
    struct sql_text sql = {0};
    struct row row;
    uint64_t affected;
    if (run_and_look(table, &sql, handle->name, handle->request, &row, &affected) == SECLOCK_OK &&
        row.holds) {
        handle->fence = row.fence;
        handle->hold_count = row.hold_count;
    }
    sql_free(&sql);
}

static enum db_result renew_once(struct db *db, const struct sql_text *sql, int patience_ms)
{
    db_set_timeout(db, patience_ms);
    enum db_result result = db_query(db, sql->text, sql->length);
    if (result != DB_OK && db_connected(db))
        db_query(db, "ROLLBACK", 8);
    return result;
}

/* A renewal may be repeated, so a connection found dead is replaced once, and a transaction that
 * the server has ended begun again; but a server that was waited for in vain is not waited for
 * again: whoever renews has other locks to look after. */
static enum db_result renew_in_time(const struct table *table, struct db *db,
                                    struct seclock_handle *const *handles, size_t count,
                                    const struct sql_text *sql)
{
    int64_t (*now_ns)(void) = handles[0]->now_ns;
    int half_ms = mysql_patience_ms(handles, count, table->timeout_ms) / 2;
    int64_t began_ns = now_ns();
    enum db_result result = renew_once(db, sql, 2 * half_ms);
    if (result != DB_OK && now_ns() - began_ns < half_ms * INT64_C(1000000))
        result = renew_once(db, sql, half_ms);
    db_set_timeout(db, table->timeout_ms);
    return result;
}

static void renew_some(struct table *table, struct seclock_handle *const *handles, size_t count,
                       enum seclock_result *results_out)
{
    struct sql_text sql = {0};
    struct db *db = mysql_pool_take(table->pool);
    const size_t first = count > 1; /* of the updates: the transaction's beginning comes before */
    renew_text(table, handles, count, &sql);
    enum db_result result = db ? renew_in_time(table, db, handles, count, &sql) : DB_FAILED;
    for (size_t i = 0; i < count; i++) {
        if (result == DB_OK)
            results_out[i] = db_affected(db, first + i) > 0 ? SECLOCK_OK : SECLOCK_LOST;
        else
            results_out[i] = db && db_in_doubt(db) ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
    }
    if (db && result != DB_OK)
        lock_set_error("mysql: %s", db_error(db));
    if (db)
        mysql_pool_give(table->pool, db);
    sql_free(&sql);
    for (size_t i = 0; i < count; i++)
        if (results_out[i] == SECLOCK_OK && handles[i]->fence == 0)
            learn_fence(table, handles[i]);
}

static int by_name(const void *a, const void *b)
{
    const struct seclock_handle *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Several rows in one transaction are taken in one order by everybody, so that two batches do not
 * dead-lock. `results_out` is in the order given. */
static void table_renew(void *self, struct seclock_handle *const *handles, size_t count,
                        enum seclock_result *results_out)
{
    struct table *table = self;
    for (size_t from = 0; from < count; from += RENEWALS_MAX) {
        struct seclock_handle *sorted[RENEWALS_MAX];
        enum seclock_result results[RENEWALS_MAX];
        size_t some = count - from < RENEWALS_MAX ? count - from : RENEWALS_MAX;
        memcpy(sorted, handles + from, some * sizeof sorted[0]);
        qsort(sorted, some, sizeof sorted[0], by_name);
        renew_some(table, sorted, some, results);
        for (size_t i = 0; i < some; i++)
            for (size_t j = 0; j < some; j++)
                if (handles[from + i] == sorted[j])
                    results_out[from + i] = results[j];
    }
}

static enum seclock_result table_release(void *self, struct seclock_handle *handle)
{
    struct table *table = self;
    struct sql_text sql = {0};
    struct row row;
    uint64_t affected;
    mysql_raw(&sql, "UPDATE distributed_lock SET owner=IF(hold_count>1,owner,NULL),"
                    "expires_at=IF(hold_count>1,expires_at,NOW(6)),hold_count=hold_count-1,"
                    "release_id=LEFT(CONCAT(");
    list_item(&sql, handle->request);
    sql_printf(&sql, ",IFNULL(release_id,'')),%d),request_id=REPLACE(request_id,", RELEASES_SIZE);
    list_item(&sql, handle->request);
    mysql_raw(&sql, ",'')");
    where_held(table, handle, &sql);
    mysql_raw(&sql, ";");
    enum seclock_result result =
        run_and_look(table, &sql, handle->name, handle->request, &row, &affected);
    sql_free(&sql);
    if (result != SECLOCK_OK)
        return result;
    return affected > 0 || row.released ? SECLOCK_OK : SECLOCK_LOST;
}

static enum seclock_result table_status(const struct lock_driver *driver, void *self,
                                        const char *name, struct seclock_status *status_out)
{
    (void)driver;
    struct table *table = self;
    struct sql_text sql = {0};
    struct row row;
    uint64_t affected;
    enum seclock_result result = run_and_look(table, &sql, name, "", &row, &affected);
    sql_free(&sql);
    bool held = row.hold_count > 0 && row.left_ms > 0;
    status_out->held = held;
    status_out->count = held ? row.hold_count : 0;
    status_out->remaining_ms = held ? row.left_ms : 0;
    status_out->fence = row.fence;
    if (held)
        strcpy(status_out->holder, row.owner);
    return result;
}

static enum seclock_result table_break(const struct lock_driver *driver, void *self,
                                       const char *name)
{
    (void)driver;
    struct table *table = self;
    struct sql_text sql = {0};
    struct row row;
    uint64_t affected;
    mysql_raw(&sql, "UPDATE distributed_lock SET owner=NULL,hold_count=0,request_id=NULL,"
                    "expires_at=NOW(6) WHERE hold_count>0 AND expires_at>NOW(6) AND name=");
    mysql_key(&sql, table->prefix, name);
    mysql_raw(&sql, ";");
    enum seclock_result result = run_and_look(table, &sql, name, "", &row, &affected);
    sql_free(&sql);
    return result == SECLOCK_OK && affected == 0 ? SECLOCK_NOT_OWNER : result;
}

const struct lock_driver mysql_table_driver = {
    .kind = SECLOCK_KIND_TABLE,
    .features = LOCK_FENCED | LOCK_RENEWS,
    .poll_ms_min = 10,
    .poll_ms_max = 200,
    .open = table_open,
    .close = table_close,
    .forget = table_forget,
    .acquire = table_acquire,
    .renew = table_renew,
    .release = table_release,
    .status = table_status,
    .break_lock = table_break,
};
