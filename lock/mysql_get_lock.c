/* The lock by MySQL's GET_LOCK: held by a connection of its own for as long as that lives. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/driver.h"
#include "lock/mysql_pool.h"
#include "lock/random.h"
#include "lock/text.h"

/* the_connection_is_the_lock: the server frees a user lock when its connection ends, however that
 * happens, and tells nobody. So each hold has a connection to itself, which is told to end
 * (wait_timeout) when nothing was asked on it for the length of the lease; renewing asks whether
 * the lock is still this connection's. A connection that was replaced says no. There is no number
 * that grows, hence no fence. */

enum {
    SLICE_MS_MAX = 400, /* of waiting in the server; must end within the client's time-out */
    ER_DEADLOCK = 1213,
    ER_USER_LOCK_DEADLOCK = 3058,
};

struct grip {
    struct db *db;
    pthread_mutex_t mutex; /* one question at a time */
    char name[SECLOCK_NAME_MAX];
    char owner[SECLOCK_TOKEN_MAX];
    int holds;    /* of its owner; 0 while it waits */
    bool leaving; /* takes no more holds */
    struct grip *next;
};

struct get_lock {
    struct mysql_pool *pool;
    char prefix[SECLOCK_PREFIX_MAX];
    int timeout_ms;
    pthread_mutex_t mutex; /* guards the list and the grips' holds */
    struct grip *grips;
};

static enum seclock_result get_lock_open(const struct lock_context *context, void **self_out)
{
    struct get_lock *self = calloc(1, sizeof *self);
    if (!self) {
        lock_set_error("out of memory");
        return SECLOCK_FAILED;
    }
    enum seclock_result result = mysql_pool_open(context->server, context->timeout_ms, &self->pool);
    if (result != SECLOCK_OK) {
        free(self);
        return result;
    }
    strcpy(self->prefix, context->prefix);
    self->timeout_ms = context->timeout_ms;
    pthread_mutex_init(&self->mutex, NULL);
    *self_out = self;
    return SECLOCK_OK;
}

static void get_lock_close(void *self)
{
    struct get_lock *get_lock = self;
    assert(!get_lock->grips);
    mysql_pool_close(&get_lock->pool);
    pthread_mutex_destroy(&get_lock->mutex);
    free(get_lock);
}

static void get_lock_forget(void *self)
{
    mysql_pool_forget(((struct get_lock *)self)->pool);
}

/* Sets @n to the name by which the server knows the lock. The server's names are short, ignore case
 * and are shared by all its databases, so it is a hash of database, prefix and name. */
static void set_name(const struct get_lock *self, const char *name, struct sql_text *sql)
{
    mysql_raw(sql, "SET @n=CONCAT('seclock.',SHA1(CONCAT(DATABASE(),'.',");
    mysql_key(sql, self->prefix, name);
    mysql_raw(sql, ")));");
}

/* Runs statements on the lock's name and gives the last one's first number; -1 for NULL. */
static enum seclock_result ask(const struct get_lock *self, struct db *db, const char *name,
                               const char *statements, long long *answer_out)
{
    struct sql_text sql = {0};
    *answer_out = -1;
    set_name(self, name, &sql);
    mysql_raw(&sql, statements);
    enum seclock_result result = mysql_pool_query(db, &sql);
    sql_free(&sql);
    char **row = result == SECLOCK_OK ? db_row(db) : NULL;
    if (row && row[0])
        *answer_out = strtoll(row[0], NULL, 10);
    return result;
}

static struct grip *grip_new(struct get_lock *self, const struct seclock_handle *handle)
{
    struct grip *grip = calloc(1, sizeof *grip);
    struct db *db = grip ? mysql_pool_take(self->pool) : NULL;
    if (!db) {
        free(grip);
        return NULL;
    }
    grip->db = db;
    pthread_mutex_init(&grip->mutex, NULL);
    strcpy(grip->name, handle->name);
    strcpy(grip->owner, handle->owner);
    return grip;
}

/* A connection that may have the lock is closed, which frees it; another one is kept. */
static void grip_free(struct get_lock *self, struct grip *grip, bool may_hold)
{
    if (may_hold)
        db_close(&grip->db);
    else
        mysql_pool_give(self->pool, grip->db);
    pthread_mutex_destroy(&grip->mutex);
    free(grip);
}

/* The same owner's hold of the lock, counted once more; NULL when there is none. */
static struct grip *grip_again(struct get_lock *self, struct seclock_handle *handle)
{
    pthread_mutex_lock(&self->mutex);
    struct grip *grip = self->grips;
    while (grip && (grip->leaving || strcmp(grip->owner, handle->owner) != 0 ||
                    strcmp(grip->name, handle->name) != 0))
        grip = grip->next;
    if (grip)
        handle->hold_count = ++grip->holds;
    pthread_mutex_unlock(&self->mutex);
    return grip;
}

/* Whether the connection still has the lock, in `wait_ms`. The question alone keeps it alive; one
 * that was closed is not replaced, because the lock went with it. */
static enum seclock_result grip_check(struct get_lock *self, struct grip *grip, int wait_ms)
{
    struct sql_text sql = {0};
    enum seclock_result result = SECLOCK_LOST;
    set_name(self, grip->name, &sql);
    mysql_raw(&sql, "SELECT IS_USED_LOCK(@n)<=>CONNECTION_ID()");
    pthread_mutex_lock(&grip->mutex);
    db_set_timeout(grip->db, wait_ms);
    if (db_connected(grip->db)) {
        bool answered = db_query(grip->db, sql.text, sql.length) == DB_OK;
        char **row = answered ? db_row(grip->db) : NULL;
        if (row && row[0] && row[0][0] == '1')
            result = SECLOCK_OK;
        else if (!answered && db_connected(grip->db))
            result = SECLOCK_FAILED;
    }
    if (result != SECLOCK_OK)
        lock_set_error("mysql: %s", db_error(grip->db));
    db_set_timeout(grip->db, self->timeout_ms);
    pthread_mutex_unlock(&grip->mutex);
    sql_free(&sql);
    return result;
}

/* Asks for the lock, waiting in the server for up to `wait_ms`. SECLOCK_OK, SECLOCK_BUSY or SECLOCK_FAILED:
 * an unanswered connection is closed, so there is no doubt. */
static enum seclock_result grip_try(struct get_lock *self, struct grip *grip, int lease_ms,
                                    int wait_ms)
{
    char text[160];
    long long got = 0;
    snprintf(text, sizeof text,
             "SET SESSION wait_timeout=%d;"
             "SELECT IF(IS_USED_LOCK(@n)<=>CONNECTION_ID(),1,GET_LOCK(@n,%d.%03d))",
             lease_ms / 1000 + 1, wait_ms / 1000, wait_ms % 1000);
    enum seclock_result result = ask(self, grip->db, grip->name, text, &got);
    if (result == SECLOCK_OK)
        return got == 1 ? SECLOCK_OK : SECLOCK_BUSY;
    int code = atoi(db_error(grip->db));
    return code == ER_DEADLOCK || code == ER_USER_LOCK_DEADLOCK ? SECLOCK_BUSY : SECLOCK_FAILED;
}

static void grip_held(struct get_lock *self, struct grip *grip, struct seclock_handle *handle)
{
    pthread_mutex_lock(&self->mutex);
    grip->holds = 1;
    grip->next = self->grips;
    self->grips = grip;
    pthread_mutex_unlock(&self->mutex);
    handle->driver_data = grip;
    handle->hold_count = 1;
}

/* One hold less, and no more for one that is `lost`; the last one takes the grip from the list. */
static bool grip_let_go(struct get_lock *self, struct grip *grip, bool lost)
{
    pthread_mutex_lock(&self->mutex);
    grip->leaving = grip->leaving || lost;
    bool last = --grip->holds == 0;
    if (last) {
        struct grip **link = &self->grips;
        while (*link != grip)
            link = &(*link)->next;
        *link = grip->next;
    }
    pthread_mutex_unlock(&self->mutex);
    return last;
}

static enum seclock_result get_lock_acquire(void *self, struct seclock_handle *handle)
{
    struct get_lock *get_lock = self;
    handle->busy_ms = -1;
    struct grip *grip = handle->waiting;
    if (!grip) {
        grip = grip_again(get_lock, handle);
        handle->driver_data = grip;
        if (grip && grip_check(get_lock, grip, get_lock->timeout_ms) == SECLOCK_OK)
            return SECLOCK_OK;
        if (grip) { /* lost, and its holder has not heard of it yet */
            handle->driver_data = NULL;
            if (grip_let_go(get_lock, grip, true))
                grip_free(get_lock, grip, true);
        }
        grip = grip_new(get_lock, handle);
    }
    if (!grip)
        return SECLOCK_FAILED;
    enum seclock_result result = grip_try(get_lock, grip, handle->lease_ms, 0);
    handle->waiting = NULL;
    if (result == SECLOCK_OK)
        grip_held(get_lock, grip, handle);
    else if (handle->waits)
        handle->waiting = grip;
    else
        grip_free(get_lock, grip, result != SECLOCK_BUSY);
    return result;
}

/* Queues up in the server, in slices short enough for the client's time-out. MySQL (not MariaDB)
 * counts whole seconds and returns at once: then the pause is here. */
static void get_lock_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    struct get_lock *get_lock = self;
    struct grip *grip = handle->waiting;
    int slice_ms = wait_ms < SLICE_MS_MAX ? wait_ms : SLICE_MS_MAX;
    if (slice_ms > get_lock->timeout_ms / 3)
        slice_ms = get_lock->timeout_ms / 3;
    if (handle->cancel_fd > 0 && slice_ms > 100)
        slice_ms = 100;
    if (!grip) {
        handle_sleep(handle, slice_ms);
        return;
    }
    if (grip_try(get_lock, grip, handle->lease_ms, slice_ms) != SECLOCK_OK)
        handle_sleep(handle, 1 + (int)lock_random(20));
}

static void get_lock_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    struct grip *grip = handle->waiting;
    if (!grip || acquired)
        return;
    handle->waiting = NULL;
    grip_free(self, grip, true); /* the last slice may have got it */
}

static void get_lock_renew(void *self, struct seclock_handle *const *handles, size_t count,
                           enum seclock_result *results_out)
{
    struct get_lock *get_lock = self;
    for (size_t i = 0; i < count; i++) {
        int wait_ms = mysql_patience_ms(&handles[i], 1, get_lock->timeout_ms);
        struct grip *grip = handles[i]->driver_data;
        results_out[i] = grip ? grip_check(get_lock, grip, wait_ms) : SECLOCK_LOST;
    }
}

static enum seclock_result get_lock_release(void *self, struct seclock_handle *handle)
{
    struct get_lock *get_lock = self;
    struct grip *grip = handle->driver_data;
    long long freed = 0;
    if (!grip)
        return SECLOCK_LOST;
    handle->driver_data = NULL;
    if (!grip_let_go(get_lock, grip, false))
        return grip_check(get_lock, grip, get_lock->timeout_ms);
    enum seclock_result result =
        ask(get_lock, grip->db, grip->name,
            "SELECT IF(IS_USED_LOCK(@n)<=>CONNECTION_ID(),RELEASE_LOCK(@n),0)", &freed);
    grip_free(get_lock, grip, result != SECLOCK_OK);
    return result == SECLOCK_OK && freed == 1 ? SECLOCK_OK : SECLOCK_LOST;
}

static void get_lock_drop(void *self, struct seclock_handle *handle)
{
    struct get_lock *get_lock = self;
    struct grip *grip = handle->driver_data;
    get_lock_stop_waiting(self, handle, false);
    handle->driver_data = NULL;
    if (grip && grip_let_go(get_lock, grip, false))
        grip_free(get_lock, grip, true);
}

/* The id of the connection that has the lock; 0: none has. */
static enum seclock_result find_holder(struct get_lock *self, struct db *db, const char *name,
                                       long long *id_out)
{
    return ask(self, db, name, "SELECT IFNULL(IS_USED_LOCK(@n),0)", id_out);
}

static enum seclock_result get_lock_status(const struct lock_driver *driver, void *self,
                                           const char *name, struct seclock_status *status_out)
{
    (void)driver;
    struct get_lock *get_lock = self;
    struct db *db = mysql_pool_take(get_lock->pool);
    long long id = 0;
    if (!db)
        return SECLOCK_FAILED;
    enum seclock_result result = find_holder(get_lock, db, name, &id);
    mysql_pool_give(get_lock->pool, db);
    if (result == SECLOCK_OK && id > 0) {
        status_out->held = true;
        status_out->count = 1;
        snprintf(status_out->holder, sizeof status_out->holder, "connection %lld", id);
    }
    return result;
}

/* Ends the holder's connection. */
static enum seclock_result get_lock_break(const struct lock_driver *driver, void *self,
                                          const char *name)
{
    (void)driver;
    struct get_lock *get_lock = self;
    struct db *db = mysql_pool_take(get_lock->pool);
    struct sql_text sql = {0};
    long long id = 0;
    if (!db)
        return SECLOCK_FAILED;
    enum seclock_result result = find_holder(get_lock, db, name, &id);
    if (result == SECLOCK_OK && id > 0) {
        sql_printf(&sql, "KILL %lld", id);
        result = mysql_pool_query(db, &sql);
        sql_free(&sql);
    } else if (result == SECLOCK_OK)
        result = SECLOCK_NOT_OWNER;
    mysql_pool_give(get_lock->pool, db);
    return result;
}

const struct lock_driver mysql_get_lock_driver = {
    .kind = SECLOCK_KIND_GET_LOCK,
    .features = LOCK_RENEWS,
    .poll_ms_min = 10,
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
