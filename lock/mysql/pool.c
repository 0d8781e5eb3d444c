/* Connections to one MySQL or MariaDB server, lent to one thread at a time. */
#include "lock/mysql/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/identity.h"
#include "lock/process.h"
#include "lock/text.h"
#include "sql_migrations.h"

enum {
    IDLE_MAX = 8,
    QUERY_TRIES_MAX = 5,
    NO_SUCH_TABLE = 1146, /* ER_NO_SUCH_TABLE; mysql.h is for sql/ only */
};

struct mysql_pool {
    char *url;
    int timeout_ms;
    struct process_guard guard;
    pthread_mutex_t mutex; /* guards all below */
    struct db *idle[IDLE_MAX];
    size_t idle_count;
};

enum seclock_result mysql_pool_open(const char *url, int timeout_ms, struct mysql_pool **pool_out)
{
    assert(timeout_ms > 0);
    char error[160];
    struct db *first = db_open(url, timeout_ms, error, sizeof error);
    *pool_out = NULL;
    if (!first) {
        lock_set_error("%s", error); /* without the URL, which holds a password */
        return SECLOCK_CONFIG;
    }
    struct mysql_pool *pool = calloc(1, sizeof *pool);
    if (pool)
        pool->url = strdup(url);
    if (!pool || !pool->url) {
        db_close(&first);
        free(pool);
        return lock_fail(SECLOCK_FAILED, "out of memory");
    }
    pool->timeout_ms = timeout_ms;
    pthread_mutex_init(&pool->mutex, NULL);
    process_guard(&pool->guard, &pool->mutex);
    pool->idle[pool->idle_count++] = first;
    *pool_out = pool;
    return SECLOCK_OK;
}

void mysql_pool_close(struct mysql_pool **pool)
{
    if (!*pool)
        return;
    for (size_t i = 0; i < (*pool)->idle_count; i++)
        db_close(&(*pool)->idle[i]);
    process_unguard(&(*pool)->guard);
    pthread_mutex_destroy(&(*pool)->mutex);
    free((*pool)->url);
    free(*pool);
    *pool = NULL;
}

/* Only the child runs this: see redis_server_forget for why it takes no mutex. */
void mysql_pool_forget(struct mysql_pool *pool)
{
    for (size_t i = 0; i < pool->idle_count && i < IDLE_MAX; i++)
        if (pool->idle[i])
            db_forget(&pool->idle[i]);
}

/* Connections differ in nothing, so that the last one given back is lent first: it is the least
 * likely to have timed out. */
struct db *mysql_pool_take(struct mysql_pool *pool)
{
    char error[160];
    pthread_mutex_lock(&pool->mutex);
    struct db *db = pool->idle_count > 0 ? pool->idle[--pool->idle_count] : NULL;
    pthread_mutex_unlock(&pool->mutex);
    if (!db)
        db = db_open(pool->url, pool->timeout_ms, error, sizeof error);
    if (!db)
        lock_set_error("out of memory");
    return db;
}

void mysql_pool_give(struct mysql_pool *pool, struct db *db)
{
    assert(db);
    pthread_mutex_lock(&pool->mutex);
    bool kept = pool->idle_count < IDLE_MAX;
    if (kept)
        pool->idle[pool->idle_count++] = db;
    pthread_mutex_unlock(&pool->mutex);
    if (!kept)
        db_close(&db);
}

/* Runs the numbered files that make the tables of lock/; each may be run again. */
static bool make_tables(struct db *db)
{
    bool made = true;
    for (size_t i = 0; i < sizeof sql_migrations / sizeof sql_migrations[0] && made; i++)
        if (strstr(sql_migrations[i].name, "_lock"))
            made = db_query(db, sql_migrations[i].text, strlen(sql_migrations[i].text)) == DB_OK;
    return made;
}

/* why_repeat: a deadlock or a lock wait rolls the statements back, so they may run again. After a
 * lost connection they may have run; each is such that a repeat does no harm, but an outcome that
 * stays unanswered stays a doubt, even when a later try certainly failed. */
static enum seclock_result query_until(struct db *db, const struct sql_text *sql, int64_t until_ms,
                                       bool *repeated_out)
{
    assert(sql->length > 0);
    bool repeated = false, made = false, doubt = false;
    *repeated_out = false;
    enum db_result result = DB_SOFT;
    for (int tries = 0; tries < QUERY_TRIES_MAX; tries++) {
        if (tries > 0 && result == DB_SOFT)
            lock_random_pause(5);
        result = db_query(db, sql->text, sql->length);
        if (result == DB_OK)
            return SECLOCK_OK;
        bool lost = result == DB_FAILED && db_in_doubt(db);
        long code = result == DB_FAILED && !lost ? strtol(db_error(db), NULL, 10) : 0;
        bool missing = code == NO_SUCH_TABLE;
        doubt = doubt || lost;
        if (clock_now_ms() >= until_ms)
            break;
        if (lost && !repeated)
            *repeated_out = repeated = true;
        else if (missing && !made && make_tables(db))
            made = true;
        else if (result != DB_SOFT)
            break;
    }
    lock_set_error("mysql: %s", db_error(db));
    return doubt ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
}

enum seclock_result mysql_pool_query_noting(struct db *db, const struct sql_text *sql,
                                            bool *repeated_out)
{
    return query_until(db, sql, INT64_MAX, repeated_out);
}

enum seclock_result mysql_pool_query_for(const struct seclock_handle *handle, int timeout_ms,
                                         struct db *db, const struct sql_text *sql)
{
    bool repeated;
    if (handle->until_ns == 0)
        return query_until(db, sql, INT64_MAX, &repeated);
    int limit_ms = handle_request_ms(handle, timeout_ms);
    /* The client library counts the time-out of a connect in seconds. */
    if (!db_connected(db) && limit_ms < timeout_ms / 2)
        return lock_fail(SECLOCK_FAILED, "mysql: no time is left to connect");
    db_set_timeout(db, limit_ms);
    enum seclock_result result = query_until(db, sql, clock_now_ms() + limit_ms, &repeated);
    db_set_timeout(db, timeout_ms);
    return result;
}

enum seclock_result mysql_pool_query(struct db *db, const struct sql_text *sql)
{
    bool repeated;
    return mysql_pool_query_noting(db, sql, &repeated);
}

void mysql_raw(struct sql_text *sql, const char *text)
{
    sql_append(sql, text, strlen(text));
}

/* Hexadecimal, so that no byte needs an escape in whatever character set the connection has. */
static void append_hex(struct sql_text *sql, const char *text)
{
    for (; *text != '\0'; text++)
        sql_printf(sql, "%02x", (unsigned)(unsigned char)*text);
}

void mysql_literal(struct sql_text *sql, const char *text)
{
    mysql_raw(sql, "x'");
    append_hex(sql, text);
    mysql_raw(sql, "'");
}

/* A NUL, which neither can have, stands between the two: else "a" with "bc" were "ab" with "c". */
void mysql_key(struct sql_text *sql, const char *prefix, const char *name)
{
    mysql_raw(sql, "x'");
    append_hex(sql, prefix);
    if (prefix[0] != '\0')
        mysql_raw(sql, "00");
    append_hex(sql, name);
    mysql_raw(sql, "'");
}
