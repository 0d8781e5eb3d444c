/* Lends connections to one MySQL or MariaDB server, each to one thread at a time. */
#include "lock/mysql/pool.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/client.h"
#include "lock/process.h"
#include "lock/text.h"
#include "sql_migrations.h"

enum {
    QUERY_TRIES_MAX = 5,
    NO_SUCH_TABLE = 1146, /* ER_NO_SUCH_TABLE; mysql.h is for sql/ only */
};

enum seclock_result mysql_pool_open(struct lock_core *core, const char *server, void **pool_out)
{
    int timeout_ms = core->options.timeout_ms;
    assert(timeout_ms > 0);
    char error[160];
    struct db *first = db_open(server, timeout_ms, error, sizeof error);
    if (!first) {
        lock_set_error("%s", error); /* omits the URL, which holds a password */
        return SECLOCK_CONFIG;
    }
    struct mysql_pool *pool = calloc(1, sizeof *pool);
    if (pool)
        pool->url = strdup(server);
    if (!pool || !pool->url) {
        db_close(&first);
        free(pool);
        return lock_fail(SECLOCK_FAILED, "out of memory");
    }
    strcpy(pool->prefix, core->options.prefix);
    pool->timeout_ms = timeout_ms;
    process_guard(&pool->guard, &pool->mutex);
    pool->idle[pool->idle_count++] = first;
    *pool_out = pool;
    return SECLOCK_OK;
}

void mysql_pool_close(void *self)
{
    struct mysql_pool *pool = self;
    for (size_t i = 0; i < pool->idle_count; i++)
        db_close(&pool->idle[i]);
    process_unguard(&pool->guard);
    free(pool->url);
    free(pool);
}

/* Only the child runs this: see redis_server_forget for why it takes no mutex. */
void mysql_pool_forget(void *self)
{
    struct mysql_pool *pool = self;
    for (size_t i = 0; i < pool->idle_count && i < MYSQL_IDLE_MAX; i++)
        if (pool->idle[i])
            db_forget(&pool->idle[i]);
}

/* All connections are alike, so the one given back last is lent first: it is the least likely to
 * have timed out. */
struct db *mysql_pool_take(struct mysql_pool *pool)
{
    char error[160];
    pthread_mutex_lock(&pool->mutex);
    assert(pool->idle_count <= MYSQL_IDLE_MAX);
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
    assert(pool->idle_count <= MYSQL_IDLE_MAX);
    bool kept = pool->idle_count < MYSQL_IDLE_MAX;
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
 * lost connection they may have run, and a repeat does no harm; but an unanswered outcome stays in
 * doubt, even when a later try certainly failed. */
enum seclock_result mysql_pool_query(const struct mysql_pool *pool,
                                     const struct seclock_handle *handle, struct db *db,
                                     const struct sql_text *sql, bool *repeated_out)
{
    assert(pool->timeout_ms > 0 && sql->length > 0);
    bool timed = handle && handle->until_ns != 0;
    int limit_ms = timed ? handle_request_ms(handle, pool->timeout_ms) : pool->timeout_ms;
    int64_t until_ms = timed ? clock_now_ms() + limit_ms : INT64_MAX;
    bool repeated = false, made = false, doubt = false;
    enum db_result result = DB_SOFT;
    if (repeated_out)
        *repeated_out = false;
    /* The client library counts the time-out of a connect in seconds. */
    if (!db_connected(db) && limit_ms < pool->timeout_ms / 2)
        return lock_fail(SECLOCK_FAILED, "mysql: no time is left to connect");
    db_set_timeout(db, limit_ms);
    for (int tries = 0; tries < QUERY_TRIES_MAX; tries++) {
        if (tries > 0 && result == DB_SOFT)
            lock_random_pause(5);
        result = db_query(db, sql->text, sql->length);
        bool lost = result == DB_FAILED && db_in_doubt(db);
        long code = result == DB_FAILED && !lost ? strtol(db_error(db), NULL, 10) : 0;
        doubt = doubt || lost;
        if (result == DB_OK || clock_now_ms() >= until_ms)
            break;
        if (lost && !repeated)
            repeated = true;
        else if (code == NO_SUCH_TABLE && !made && make_tables(db))
            made = true;
        else if (result != DB_SOFT)
            break;
    }
    db_set_timeout(db, pool->timeout_ms);
    if (repeated_out)
        *repeated_out = repeated;
    if (result == DB_OK)
        return SECLOCK_OK;
    return lock_fail(doubt ? SECLOCK_UNKNOWN : SECLOCK_FAILED, "mysql: %s", db_error(db));
}

/* ---- the text of statements ---- */

/* Writes hexadecimal, so that no byte needs an escape in any character set of the connection. */
static void append_literal(struct sql_text *sql, const char *data, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    sql_append(sql, "x'", 2);
    for (const unsigned char *at = (const unsigned char *)data; size > 0; at++, size--)
        sql_append(sql, (const char[2]){digits[*at >> 4], digits[*at & 15]}, 2);
    sql_append(sql, "'", 1);
}

/* Appends prefix, NUL and name; without a prefix the name alone. Neither can contain a NUL: without
 * it, "a" with "bc" would equal "ab" with "c". */
static void append_key(struct sql_text *sql, const char *prefix, const char *name)
{
    char key[SECLOCK_PREFIX_MAX + SECLOCK_NAME_MAX];
    size_t used = 0;
    assert(strlen(name) < SECLOCK_NAME_MAX);
    if (prefix[0] != '\0')
        used = (size_t)(stpcpy(key, prefix) - key) + 1;
    strcpy(key + used, name);
    append_literal(sql, key, used + strlen(name));
}

void mysql_write(const struct mysql_pool *pool, struct sql_text *sql, const char *format, ...)
{
    va_list args;
    const char *text;
    va_start(args, format);
    for (const char *mark; (mark = strchr(format, '%')) != NULL; format = mark + 2) {
        sql_append(sql, format, (size_t)(mark - format));
        if (mark[1] == 'd') {
            sql_printf(sql, "%d", va_arg(args, int));
        } else if (mark[1] == 'u') {
            sql_printf(sql, "%ju", va_arg(args, uint64_t));
        } else {
            assert(mark[1] == 'k' || mark[1] == 't' || mark[1] == 'b');
            text = va_arg(args, const char *);
            if (mark[1] == 'k')
                append_key(sql, pool->prefix, text);
            else
                append_literal(sql, text, mark[1] == 'b' ? va_arg(args, size_t) : strlen(text));
        }
    }
    sql_append(sql, format, strlen(format));
    va_end(args);
}
