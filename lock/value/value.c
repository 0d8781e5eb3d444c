/* Stores versioned values in MySQL and Redis: only a caller that has seen the present version may
 * change the value. This is optimistic concurrency, not a lock. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/client.h"
#include "lock/mysql/pool.h"
#include "lock/redis/server.h"
#include "lock/seclock_value.h"
#include "lock/text.h"
#include "lua_scripts.h"

/* why_no_lock: nobody waits, and the death of a writer blocks nobody. A caller that read version N
 * writes if the version still is N; the second of two writers reads again. That is faster than a
 * lock where changes seldom meet, and slower where they often do. */

enum {
    VALUE_TTL_MS = 7 * 24 * 3600 * 1000,
    PAUSE_MS_MAX = 64,
};

/* Values share the connections, the drivers' state, of the Redis kinds or of the table lock. */
static enum seclock_result store_find(struct seclock_client *client, enum seclock_store store,
                                      const char *name, void **self_out)
{
    const struct lock_driver *driver;
    bool redis = store == SECLOCK_STORE_REDIS;
    return client_lock(client, redis ? SECLOCK_KIND_SIMPLE : SECLOCK_KIND_TABLE, name, &driver,
                       self_out);
}

/* The first use of a value that the caller has given: checks the struct. */
static bool value_known(const struct seclock_value *value)
{
    struct seclock_value known;
    return lock_sized_read(&known, sizeof known, sizeof known, value);
}

/* Notes what the server has, of `length` bytes, if the caller's buffer can take it. */
static enum seclock_result value_fits(struct seclock_value *value_out, size_t length,
                                      uint64_t version)
{
    value_out->length = length;
    if (length > value_out->capacity)
        return lock_fail(SECLOCK_CONFIG, "the value has %zu bytes, and the buffer only %zu", length,
                         value_out->capacity);
    value_out->version = version;
    return SECLOCK_OK;
}

/* ---- Redis ---- */

/* Reading changes nothing, so an unanswered read has failed and leaves no doubt. */
static enum seclock_result redis_read(struct redis_server *server, const char *name,
                                      struct seclock_value *value_out)
{
    char key[SCRIPT_KEY_MAX];
    redis_server_key(server, name, "value", key);
    struct command command = {.argc = 4, .argv = {"HMGET", key, "v", "d"}};
    enum seclock_result result = redis_server_commands(server, &command, 1);
    if (result == SECLOCK_OK) {
        size_t size = 0;
        const char *data = command_text(&command, 1, &size);
        result = value_fits(value_out, data ? size : 0, (uint64_t)command_int(&command, 0));
        if (result == SECLOCK_OK && value_out->length > 0)
            memcpy(value_out->data, data, value_out->length);
    }
    command_clear(&command, 1);
    return result == SECLOCK_UNKNOWN ? SECLOCK_FAILED : result;
}

/* why_not_busy: the server remembers only the last change. When a swap was sent twice and the value
 * is now another client's, our first sending may have succeeded before that. A caller that took
 * this for BUSY would apply its change twice. */
static enum seclock_result overtaken(bool repeated)
{
    return repeated
               ? lock_fail(SECLOCK_UNKNOWN, "an answer was lost, then another changed the value")
               : SECLOCK_BUSY;
}

/* The script recognises a repeat by the id of the change. It is sent as EVAL with its text, because
 * values are rarer than locks and do not merit a place in the list of loaded scripts. */
static enum seclock_result redis_swap(struct redis_server *server, const char *name,
                                      struct seclock_value *value, const char *change, int ttl_ms)
{
    assert(value->length <= SECLOCK_VALUE_MAX);
    char key[SCRIPT_KEY_MAX], version[24], ttl[16];
    redis_server_key(server, name, "value", key);
    snprintf(version, sizeof version, "%" PRIu64, value->version);
    snprintf(ttl, sizeof ttl, "%d", ttl_ms > 0 ? ttl_ms : VALUE_TTL_MS);
    /* A length of 0 stands for strlen: so an empty value is the text "". */
    struct command command = {
        .argc = 8,
        .argv = {"EVAL", lua_value_swap, "1", key, version, value->length > 0 ? value->data : "",
                 change, ttl},
        .lengths = {[5] = value->length},
    };
    bool repeated;
    enum seclock_result result = redis_server_change(server, &command, 1, &repeated);
    if (result == SECLOCK_OK && command_int(&command, 0) == 1)
        value->version = (uint64_t)command_int(&command, 1);
    else if (result == SECLOCK_OK)
        result = overtaken(repeated);
    command_clear(&command, 1);
    return result;
}

/* ---- MySQL ---- */

static int hex_digit(char c)
{
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

static void unhex(const char *hex, size_t length, char *out)
{
    for (size_t i = 0; i < length; i++)
        out[i] = (char)(hex_digit(hex[2 * i]) * 16 + hex_digit(hex[2 * i + 1]));
}

static enum seclock_result mysql_read(struct mysql_pool *pool, const char *name,
                                      struct seclock_value *value_out)
{
    struct sql_text sql = {0};
    struct db *db = mysql_pool_take(pool);
    if (!db)
        return SECLOCK_FAILED;
    mysql_write(pool, &sql, "SELECT version,HEX(value) FROM lock_value WHERE name=%k", name);
    enum seclock_result result = mysql_pool_query(pool, NULL, db, &sql, NULL);
    char **row = result == SECLOCK_OK ? db_row(db) : NULL;
    if (row)
        result = value_fits(value_out, strlen(row[1]) / 2, strtoull(row[0], NULL, 10));
    if (row && result == SECLOCK_OK)
        unhex(row[1], value_out->length, value_out->data);
    mysql_pool_give(pool, db);
    sql_free(&sql);
    return result == SECLOCK_UNKNOWN ? SECLOCK_FAILED : result;
}

/* The first version is the time of day in us, so that a deleted value that is created again never
 * repeats an earlier version. The SELECT reads which change the row shows now. */
static void swap_text(const struct mysql_pool *pool, const char *name,
                      const struct seclock_value *value, const char *change, struct sql_text *sql)
{
    assert(value->length <= SECLOCK_VALUE_MAX);
    if (value->version == 0)
        mysql_write(pool, sql,
                    "INSERT IGNORE INTO lock_value(name,version,change_id,changed_at,value)"
                    "VALUES(%k,UNIX_TIMESTAMP(NOW(6))*1000000,%t,NOW(6),%b);",
                    name, change, value->data, value->length);
    else
        mysql_write(pool, sql,
                    "UPDATE lock_value SET version=version+1,changed_at=NOW(6),change_id=%t,"
                    "value=%b WHERE name=%k AND version=%u;",
                    change, value->data, value->length, name, value->version);
    mysql_write(pool, sql, "SELECT version,change_id FROM lock_value WHERE name=%k", name);
}

/* After a lost answer the id in the row tells whether our change or another client's came last. */
static enum seclock_result mysql_swap(struct mysql_pool *pool, const char *name,
                                      struct seclock_value *value, const char *change)
{
    assert(pool && value->length <= SECLOCK_VALUE_MAX);
    struct sql_text sql = {0};
    bool repeated;
    struct db *db = mysql_pool_take(pool);
    if (!db)
        return SECLOCK_FAILED;
    swap_text(pool, name, value, change, &sql);
    enum seclock_result result = mysql_pool_query(pool, NULL, db, &sql, &repeated);
    char **row = result == SECLOCK_OK ? db_row(db) : NULL;
    if (row && db_affected(db, 0) > 0) /* done, even if changed again since */
        value->version =
            strcmp(row[1], change) == 0 ? strtoull(row[0], NULL, 10) : value->version + 1;
    else if (row && strcmp(row[1], change) == 0) /* the first of two sendings did it */
        value->version = strtoull(row[0], NULL, 10);
    else if (result == SECLOCK_OK)
        result = overtaken(repeated);
    mysql_pool_give(pool, db);
    sql_free(&sql);
    return result;
}

/* ---- the public functions ---- */

enum seclock_result seclock_value_read(struct seclock_client *client, enum seclock_store store,
                                       const char *name, struct seclock_value *value_out)
{
    void *self;
    if (!value_known(value_out))
        return SECLOCK_CONFIG;
    value_out->version = 0;
    value_out->length = 0;
    enum seclock_result result = store_find(client, store, name, &self);
    if (result != SECLOCK_OK)
        return result;
    return store == SECLOCK_STORE_REDIS ? redis_read(self, name, value_out)
                                        : mysql_read(self, name, value_out);
}

enum seclock_result seclock_value_swap(struct seclock_client *client, enum seclock_store store,
                                       const char *name, struct seclock_value *value, int ttl_ms)
{
    void *self;
    char change[LOCK_RANDOM_SIZE];
    if (!value_known(value))
        return SECLOCK_CONFIG;
    if (value->length > SECLOCK_VALUE_MAX)
        return lock_fail(SECLOCK_CONFIG, "a value has at most %d bytes", SECLOCK_VALUE_MAX);
    enum seclock_result result = store_find(client, store, name, &self);
    if (result != SECLOCK_OK)
        return result;
    lock_random_text(change);
    return store == SECLOCK_STORE_REDIS ? redis_swap(self, name, value, change, ttl_ms)
                                        : mysql_swap(self, name, value, change);
}

/* The pause grows with each try, so that many writers of one value do not block each other. */
enum seclock_result seclock_value_update(struct seclock_client *client, enum seclock_store store,
                                         const char *name, struct seclock_value *value,
                                         bool (*change)(struct seclock_value *value, void *context),
                                         void *context, int tries_max)
{
    enum seclock_result result = SECLOCK_BUSY;
    unsigned pause_ms = 1;
    for (int tries = 0; tries < tries_max && result == SECLOCK_BUSY; tries++) {
        if (tries > 0)
            lock_random_pause(pause_ms);
        pause_ms = pause_ms < PAUSE_MS_MAX ? pause_ms * 2 : PAUSE_MS_MAX;
        result = seclock_value_read(client, store, name, value);
        if (result == SECLOCK_OK)
            result = change(value, context) ? seclock_value_swap(client, store, name, value, 0)
                                            : SECLOCK_CANCELLED;
    }
    return result;
}
