/* The table lock on MySQL: a row of distributed_lock with owner, count, fence and lease. What the
 * statements do is told in mysql_table_text.c. */
#include "lock/mysql/table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/driver.h"
#include "lock/mysql/table_text.h"
#include "lock/text.h"

enum { RENEWALS_MAX = 256 }; /* in one transaction */

struct table {
    struct mysql_pool *pool;
    int timeout_ms;
    char prefix[SECLOCK_PREFIX_MAX];
};

/* The row after a change. */
struct row {
    bool found;
    bool holds, released; /* the request is among its holds, among its releases */
    char owner[SECLOCK_TOKEN_MAX];
    uint64_t fence;
    int hold_count;
    int64_t left_ms; /* of the lease; 0: nobody holds it */
};

static bool true_column(const char *column)
{
    return column && column[0] != '0';
}

/* The row is read after the change in the same packet, so it may show a later change of another;
 * the two flags for the request tell what became of ours. */
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
    row_out->hold_count = (int)strtol(columns[4], NULL, 10);
    row_out->left_ms = strtoll(columns[5], NULL, 10);
}

static enum seclock_result table_open(const struct lock_context *context, void **self_out)
{
    struct table *table = calloc(1, sizeof *table);
    if (!table)
        return lock_fail(SECLOCK_FAILED, "out of memory");
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

/* Sends the statements, and in the same packet the SELECT of the row for a request (or "").
 * `affected_out` counts the rows of the first statement. With a handle, within the time of its
 * acquisition. */
static enum seclock_result run_and_read(struct table *table, struct sql_text *sql,
                                        const struct seclock_handle *handle, const char *name,
                                        const char *request, struct row *row_out,
                                        uint64_t *affected_out)
{
    assert(name[0] != '\0');
    *row_out = (struct row){0};
    *affected_out = 0;
    struct db *db = mysql_pool_take(table->pool);
    if (!db)
        return SECLOCK_FAILED;
    table_select_text(table->prefix, name, request, sql);
    enum seclock_result result = handle ? mysql_pool_query_for(handle, table->timeout_ms, db, sql)
                                        : mysql_pool_query(db, sql);
    if (result == SECLOCK_OK) {
        *affected_out = db_affected(db, 0);
        row_read(db, row_out);
    }
    mysql_pool_give(table->pool, db);
    return result;
}

/* Inserts a row that is free. Without an answer the lock is as free as before, with or without the
 * row: so there is no doubt. */
static enum seclock_result make_row(struct table *table, const struct seclock_handle *handle)
{
    const char *name = handle->name;
    struct sql_text sql = {0};
    struct row row;
    uint64_t affected;
    mysql_raw(&sql, "INSERT IGNORE INTO distributed_lock(name,expires_at)VALUES(");
    mysql_key(&sql, table->prefix, name);
    mysql_raw(&sql, ",NOW(6));");
    enum seclock_result result = run_and_read(table, &sql, handle, name, "", &row, &affected);
    sql_free(&sql);
    return result == SECLOCK_UNKNOWN ? SECLOCK_FAILED : result;
}

static enum seclock_result acquire_once(struct table *table, const struct seclock_handle *handle,
                                        struct row *row_out)
{
    struct sql_text sql = {0};
    uint64_t affected;
    table_acquire_text(table->prefix, handle, &sql);
    enum seclock_result result =
        run_and_read(table, &sql, handle, handle->name, handle->request, row_out, &affected);
    sql_free(&sql);
    return result;
}

/* The row is inserted only when the UPDATE finds none: once per name, not once per acquisition. */
static enum seclock_result table_acquire(void *self, struct seclock_handle *handle)
{
    struct table *table = self;
    struct row row;
    enum seclock_result result = acquire_once(table, handle, &row);
    if (result == SECLOCK_OK && !row.found) {
        result = make_row(table, handle);
        if (result == SECLOCK_OK)
            result = acquire_once(table, handle, &row);
    }
    if (result != SECLOCK_OK)
        return result;
    if (row.holds && row.left_ms > 0) { /* now, or already by the first of two sendings */
        handle->fence = row.fence;
        handle->hold_count = row.hold_count;
        return SECLOCK_OK;
    }
    handle->busy_ms = row.left_ms;
    return SECLOCK_BUSY;
}

/* Learns the fence of a hold whose acquisition was not answered. */
static void learn_fence(struct table *table, struct seclock_handle *handle)
{
    struct sql_text sql = {0};
    struct row row;
    uint64_t affected;
    if (run_and_read(table, &sql, handle, handle->name, handle->request, &row, &affected) ==
            SECLOCK_OK &&
        row.holds) {
        handle->fence = row.fence;
        handle->hold_count = row.hold_count;
    }
    sql_free(&sql);
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

/* A renewal may be repeated: after a lost connection on a new one, and after a transaction that the
 * server has rolled back. But nobody waits twice for a silent server, since the watchdog has other
 * locks to renew. */
static enum db_result renew_in_time(const struct table *table, struct db *db,
                                    struct seclock_handle *const *handles, size_t count,
                                    const struct sql_text *sql)
{
    int64_t (*now_ns)(void) = handles[0]->now_ns;
    int half_ms = handle_renewal_ms(handles, count, MYSQL_RENEWAL_MS_MIN, table->timeout_ms) / 2;
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
    assert(count > 0 && count <= RENEWALS_MAX);
    struct sql_text sql = {0};
    struct db *db = mysql_pool_take(table->pool);
    const size_t first = count > 1; /* UPDATE: START TRANSACTION comes before */
    table_renew_text(table->prefix, handles, count, &sql);
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

/* Every batch locks its rows in the order of their names, so that two transactions do not
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
    table_release_text(table->prefix, handle, &sql);
    enum seclock_result result =
        run_and_read(table, &sql, handle, handle->name, handle->request, &row, &affected);
    sql_free(&sql);
    if (result != SECLOCK_OK)
        return result;
    /* No row, but the request among the releases: the first of two sendings has done it. */
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
    enum seclock_result result = run_and_read(table, &sql, NULL, name, "", &row, &affected);
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
    table_break_text(table->prefix, name, &sql);
    enum seclock_result result = run_and_read(table, &sql, NULL, name, "", &row, &affected);
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
