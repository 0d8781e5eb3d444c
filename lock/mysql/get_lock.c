/* Locks by MySQL's GET_LOCK: a connection of its own holds the lock for as long as it lives. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/url.h"
#include "lock/driver.h"
#include "lock/mysql/pool.h"
#include "lock/process.h"
#include "lock/text.h"

/* the_connection_is_the_lock: the server frees a user lock when its connection ends, for any
 * reason, and notifies nobody. So each hold has a connection to itself, which the server ends
 * (wait_timeout) when it hears nothing on it for a lease. A renewal asks whether this connection
 * still has the lock; a replaced connection has not. No number grows with each acquisition, hence
 * there is no fence. */

/* why_one_server: such a lock is in the memory of one server. Another node of a Galera cluster
 * gives it to another client, and so does the next primary while the former one still lives. */

enum {
    SLICE_MS_MAX = 400, /* one wait in the server, which must end within the client's time-out */
    ER_DEADLOCK = 1213,
    ER_USER_LOCK_DEADLOCK = 3058,
};

/* One connection that has the lock, or waits for it. */
struct holding {
    struct db *db;
    LIST_ENTRY(holding) in_list;
};

struct get_lock {
    struct mysql_pool *pool;
    _Atomic bool alone;    /* the server has said that it is in no cluster */
    pthread_mutex_t mutex; /* guards the list */
    struct process_guard guard;
    LIST_HEAD(, holding) holdings;
};

static enum seclock_result get_lock_open(struct lock_core *core, const char *server,
                                         void **self_out)
{
    char error[URL_ERROR_SIZE];
    struct url url;
    if (url_parse(server, "mysql", &url, error, sizeof error) && url.server_count > 1)
        return lock_fail(SECLOCK_CONFIG, "get-lock: several servers do not share such a lock");
    struct get_lock *self = calloc(1, sizeof *self);
    if (!self)
        return lock_fail(SECLOCK_FAILED, "out of memory");
    void *pool;
    enum seclock_result result = mysql_pool_open(core, server, &pool);
    if (result != SECLOCK_OK) {
        free(self);
        return result;
    }
    self->pool = pool;
    process_guard(&self->guard, &self->mutex);
    *self_out = self;
    return SECLOCK_OK;
}

static void get_lock_close(void *self)
{
    struct get_lock *get_lock = self;
    assert(LIST_EMPTY(&get_lock->holdings));
    mysql_pool_close(get_lock->pool);
    process_unguard(&get_lock->guard);
    free(get_lock);
}

/* If the child kept such a connection, the lock would outlive its holder. */
static void get_lock_forget(void *self)
{
    struct get_lock *get_lock = self;
    struct holding *i;
    LIST_FOREACH (i, &get_lock->holdings, in_list)
        db_forget(&i->db);
    mysql_pool_forget(get_lock->pool);
}

/* Sets @n to the server's name of the lock: a hash of database, prefix and name, because names of
 * user locks have 64 characters, ignore case and are shared by all databases. */
#define SET_NAME "SET @n=CONCAT('seclock.',SHA2(CONCAT(DATABASE(),'.',%k),224));"

/* Runs statements on the lock's name and gives the first number of the last one; -1 for NULL. With
 * a handle, within the time of its acquisition. */
static enum seclock_result ask(const struct get_lock *self, const struct seclock_handle *handle,
                               struct db *db, const char *name, const char *statements,
                               long long *answer_out)
{
    struct sql_text sql = {0};
    *answer_out = -1;
    mysql_write(self->pool, &sql, SET_NAME, name);
    sql_append(&sql, statements, strlen(statements));
    enum seclock_result result = mysql_pool_query(self->pool, handle, db, &sql, NULL);
    sql_free(&sql);
    char **row = result == SECLOCK_OK ? db_row(db) : NULL;
    if (row && row[0])
        *answer_out = strtoll(row[0], NULL, 10);
    return result;
}

/* Asks once whether the server is a node of a Galera cluster. */
static enum seclock_result check_alone(struct get_lock *self, const struct seclock_handle *handle)
{
    struct sql_text sql = {0};
    bool on = false, provided = false;
    if (atomic_load(&self->alone))
        return SECLOCK_OK;
    struct db *db = mysql_pool_take(self->pool);
    if (!db)
        return SECLOCK_FAILED;
    sql_printf(&sql, "SHOW GLOBAL VARIABLES WHERE Variable_name IN('wsrep_on','wsrep_provider')");
    enum seclock_result result = mysql_pool_query(self->pool, handle, db, &sql, NULL);
    for (char **row = result == SECLOCK_OK ? db_row(db) : NULL; row; row = db_row(db)) {
        on = on || strcmp(row[1], "ON") == 0;
        provided =
            provided || (strcmp(row[0], "wsrep_provider") == 0 && strcmp(row[1], "none") != 0);
    }
    mysql_pool_give(self->pool, db);
    sql_free(&sql);
    if (result != SECLOCK_OK)
        return result;
    if (on && provided)
        return lock_fail(SECLOCK_CONFIG, "get-lock: the nodes of a Galera cluster do not share "
                                         "such a lock");
    atomic_store(&self->alone, true);
    return SECLOCK_OK;
}

static struct holding *holding_new(struct get_lock *self)
{
    struct holding *holding = calloc(1, sizeof *holding);
    struct db *db = holding ? mysql_pool_take(self->pool) : NULL;
    if (!db) {
        free(holding);
        return NULL;
    }
    holding->db = db;
    pthread_mutex_lock(&self->mutex);
    LIST_INSERT_HEAD(&self->holdings, holding, in_list);
    pthread_mutex_unlock(&self->mutex);
    return holding;
}

/* Closes a connection that may have the lock, which frees the lock; keeps any other. */
static void holding_free(struct get_lock *self, struct holding *holding, bool may_hold)
{
    pthread_mutex_lock(&self->mutex);
    LIST_REMOVE(holding, in_list);
    pthread_mutex_unlock(&self->mutex);
    if (may_hold)
        db_close(&holding->db);
    else
        mysql_pool_give(self->pool, holding->db);
    free(holding);
}

/* Returns the lease in whole seconds, rounded up, as the server keeps it. */
static int lease_s(const struct seclock_handle *handle)
{
    assert(handle->lease_ms > 0);
    return handle->lease_ms / 1000 + 1;
}

/* Asks within `wait_ms` whether the connection still has the lock, which also keeps the connection
 * alive for a lease. A closed connection is not replaced, because its lock is gone. */
static enum seclock_result holding_check(const struct get_lock *self,
                                         const struct seclock_handle *handle, int wait_ms)
{
    assert(wait_ms > 0);
    struct db *db = ((struct holding *)handle->driver_data)->db;
    struct sql_text sql = {0};
    enum seclock_result result = SECLOCK_LOST;
    mysql_write(self->pool, &sql,
                "SET SESSION wait_timeout=%d;" SET_NAME "SELECT IS_USED_LOCK(@n)<=>CONNECTION_ID()",
                lease_s(handle), handle->name);
    db_set_timeout(db, wait_ms);
    if (db_connected(db)) {
        bool answered = db_query(db, sql.text, sql.length) == DB_OK;
        char **row = answered ? db_row(db) : NULL;
        if (row && row[0] && row[0][0] == '1')
            result = SECLOCK_OK;
        else if (!answered && db_connected(db))
            result = SECLOCK_FAILED;
    }
    if (result != SECLOCK_OK)
        lock_set_error("mysql: %s", db_error(db));
    db_set_timeout(db, self->pool->timeout_ms);
    sql_free(&sql);
    return result;
}

/* Asks for the lock, waiting in the server for up to `wait_ms`. SECLOCK_OK, SECLOCK_BUSY or
 * SECLOCK_FAILED: an unanswered connection is closed, so there is no doubt. */
static enum seclock_result holding_try(const struct get_lock *self, struct holding *holding,
                                       const struct seclock_handle *handle, int wait_ms)
{
    assert(wait_ms >= 0);
    char text[160];
    long long got = 0;
    snprintf(text, sizeof text,
             "SET SESSION wait_timeout=%d;"
             "SELECT IF(IS_USED_LOCK(@n)<=>CONNECTION_ID(),1,GET_LOCK(@n,%d.%03d))",
             lease_s(handle), wait_ms / 1000, wait_ms % 1000);
    enum seclock_result result = ask(self, handle, holding->db, handle->name, text, &got);
    if (result == SECLOCK_OK)
        return got == 1 ? SECLOCK_OK : SECLOCK_BUSY;
    long code = strtol(db_error(holding->db), NULL, 10);
    return code == ER_DEADLOCK || code == ER_USER_LOCK_DEADLOCK ? SECLOCK_BUSY : SECLOCK_FAILED;
}

static enum seclock_result get_lock_acquire(void *self, struct seclock_handle *handle)
{
    struct get_lock *get_lock = self;
    handle->busy_ms = -1;
    assert(!handle->driver_data);
    enum seclock_result result = check_alone(get_lock, handle);
    if (result != SECLOCK_OK)
        return result;
    struct holding *holding = handle->waiting ? handle->waiting : holding_new(get_lock);
    if (!holding)
        return SECLOCK_FAILED;
    result = holding_try(get_lock, holding, handle, 0);
    handle->waiting = NULL;
    if (result == SECLOCK_OK) {
        handle->driver_data = holding;
        handle->hold_count = 1;
    } else if (handle->waits && !handle->polls)
        handle->waiting = holding;
    else
        holding_free(get_lock, holding, result != SECLOCK_BUSY);
    return result;
}

/* Queues up in the server, in slices short enough for the client's time-out. MySQL (unlike MariaDB)
 * counts whole seconds and returns at once; then this function pauses. */
static void get_lock_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    struct get_lock *get_lock = self;
    struct holding *holding = handle->waiting;
    int slice_ms = wait_ms < SLICE_MS_MAX ? wait_ms : SLICE_MS_MAX;
    if (slice_ms > get_lock->pool->timeout_ms / 3)
        slice_ms = get_lock->pool->timeout_ms / 3;
    if (handle->cancel_fd > 0 && slice_ms > 100)
        slice_ms = 100;
    assert(wait_ms >= 0);
    if (!holding) {
        handle_sleep(handle, slice_ms);
        return;
    }
    if (holding_try(get_lock, holding, handle, slice_ms) != SECLOCK_OK)
        handle_sleep(handle, 1 + (int)lock_random(20));
}

static void get_lock_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    struct holding *holding = handle->waiting;
    if (!holding || acquired)
        return;
    handle->waiting = NULL;
    holding_free(self, holding, true); /* the last slice may have acquired it */
}

static void get_lock_renew(void *self, struct seclock_handle *const *handles, size_t count,
                           enum seclock_result *results_out)
{
    struct get_lock *get_lock = self;
    for (size_t i = 0; i < count; i++) {
        int wait_ms =
            handle_renewal_ms(&handles[i], 1, MYSQL_RENEWAL_MS_MIN, get_lock->pool->timeout_ms);
        results_out[i] =
            handles[i]->driver_data ? holding_check(get_lock, handles[i], wait_ms) : SECLOCK_LOST;
        if (results_out[i] == SECLOCK_LOST)
            handle_keep_loss(handles[i], SECLOCK_LOSS_SESSION);
    }
}

/* Frees the lock by name, and the connection goes back to the pool. An unanswered connection is
 * closed, which frees the lock as well. */
static enum seclock_result get_lock_release(void *self, struct seclock_handle *handle)
{
    struct holding *holding = handle->driver_data;
    long long freed = 0;
    if (!holding)
        return SECLOCK_LOST;
    handle->driver_data = NULL;
    enum seclock_result result =
        ask(self, handle, holding->db, handle->name,
            "SELECT IF(IS_USED_LOCK(@n)<=>CONNECTION_ID(),RELEASE_LOCK(@n),0)", &freed);
    holding_free(self, holding, result != SECLOCK_OK);
    return result == SECLOCK_OK && freed == 1 ? SECLOCK_OK : SECLOCK_LOST;
}

static void get_lock_drop(void *self, struct seclock_handle *handle)
{
    struct holding *holding = handle->driver_data;
    get_lock_stop_waiting(self, handle, false);
    handle->driver_data = NULL;
    if (holding)
        holding_free(self, holding, true);
}

/* Finds the id of the connection that has the lock, 0: the lock is free; and `ends` it. */
static enum seclock_result find_holder(struct get_lock *self, const char *name, bool ends,
                                       long long *id_out)
{
    struct sql_text sql = {0};
    *id_out = 0;
    struct db *db = mysql_pool_take(self->pool);
    if (!db)
        return SECLOCK_FAILED;
    enum seclock_result result =
        ask(self, NULL, db, name, "SELECT IFNULL(IS_USED_LOCK(@n),0)", id_out);
    if (result == SECLOCK_OK && *id_out > 0 && ends) {
        sql_printf(&sql, "KILL %ju", (uint64_t)*id_out);
        result = mysql_pool_query(self->pool, NULL, db, &sql, NULL);
        sql_free(&sql);
    }
    mysql_pool_give(self->pool, db);
    return result;
}

static enum seclock_result get_lock_status(const struct lock_driver *driver, void *self,
                                           const char *name, struct seclock_status *status_out)
{
    (void)driver;
    long long id;
    enum seclock_result result = find_holder(self, name, false, &id);
    if (result == SECLOCK_OK && id > 0) {
        status_out->held = true;
        status_out->count = 1;
        snprintf(status_out->holder, sizeof status_out->holder, "connection %lld", id);
    }
    return result;
}

static enum seclock_result get_lock_break(const struct lock_driver *driver, void *self,
                                          const char *name)
{
    (void)driver;
    long long id;
    enum seclock_result result = find_holder(self, name, true, &id);
    return result == SECLOCK_OK && id <= 0 ? SECLOCK_NOT_OWNER : result;
}

const struct lock_driver mysql_get_lock_driver = {
    .kind = SECLOCK_KIND_GET_LOCK,
    .features = LOCK_RENEWS,
    .poll_ms_min = 10, /* of waiters in a loop */
    .poll_ms_max = 200,
    .open = get_lock_open,
    .close = get_lock_close,
    .forget = get_lock_forget,
    .acquire = get_lock_acquire,
    .wait = get_lock_wait,
    .stop_waiting = get_lock_stop_waiting,
    .renew = get_lock_renew,
    .release = get_lock_release,
    .drop = get_lock_drop,
    .status = get_lock_status,
    .break_lock = get_lock_break,
};
