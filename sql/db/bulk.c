/* Prepared statements that one call executes for many rows, MariaDB's bulk binding. */
#include "sql/db/bulk.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

#ifdef MARIADB_CLIENT_STMT_BULK_OPERATIONS

bool bulk_supported(struct db *db)
{
    unsigned long extended = 0; /* the upper half of the capabilities */
    assert(db->in_run && db->mysql);
    bool failed = mariadb_get_infov(db->mysql, MARIADB_CONNECTION_EXTENDED_SERVER_CAPABILITIES,
                                    &extended) != 0;
    return !failed && (extended & (MARIADB_CLIENT_STMT_BULK_OPERATIONS >> 32)) != 0;
}

static bool set_rows(MYSQL_STMT *statement, size_t row_size, size_t count)
{
    unsigned rows = (unsigned)count;
    return mysql_stmt_attr_set(statement, STMT_ATTR_ROW_SIZE, &row_size) == 0 &&
           mysql_stmt_attr_set(statement, STMT_ATTR_ARRAY_SIZE, &rows) == 0;
}

/* The client library reads the same byte, 1 for NULL, under either name. */
static void set_indicator(MYSQL_BIND *bind, bulk_null *is_null)
{
    static_assert(STMT_INDICATOR_NULL == 1 && sizeof *is_null == 1, "a flag is an indicator");
    bind->u.indicator = (char *)is_null;
}

#else /* MySQL's client library */

bool bulk_supported(struct db *db)
{
    (void)db;
    return false;
}

static bool set_rows(MYSQL_STMT *statement, size_t row_size, size_t count)
{
    (void)statement, (void)row_size;
    return count == 1;
}

static void set_indicator(MYSQL_BIND *bind, bulk_null *is_null)
{
    (void)bind, (void)is_null;
}

#endif

static enum db_result failed(struct db *db, MYSQL_STMT *statement)
{
    return db_statement_error(db, mysql_stmt_errno(statement), mysql_stmt_error(statement));
}

static enum db_result prepare(struct bulk *bulk, struct db *db, const char *text, MYSQL_BIND *binds,
                              size_t row_size)
{
    MYSQL_STMT *statement = memory_must(mysql_stmt_init(db->mysql));
    bulk->connection = db->stats.connects;
    if (mysql_stmt_prepare(statement, text, (unsigned long)strlen(text)) == 0 &&
        set_rows(statement, row_size, 1) &&
        mysql_stmt_bind_param(statement, binds) == 0) { /* which copies the bindings */
        bulk->statement = statement;
        assert(db->prepared_count < DB_PREPARED_MAX);
        db->prepared[db->prepared_count++] = &bulk->statement;
        return DB_OK;
    }
    enum db_result result = failed(db, statement);
    mysql_stmt_close(statement);
    return result;
}

enum db_result bulk_execute(struct bulk *bulk, struct db *db, const char *text, MYSQL_BIND *binds,
                            size_t row_size, size_t count, uint64_t *affected_out)
{
    assert(count > 0 && db->in_run && !db->begin);
    *affected_out = 0;
    db->doing = text;
    db->doing_length = strlen(text);
    if (bulk->connection != db->stats.connects)
        bulk_close(bulk);
    enum db_result result = bulk->statement ? DB_OK : prepare(bulk, db, text, binds, row_size);
    if (result != DB_OK)
        return result;
    if (!set_rows(bulk->statement, row_size, count) || mysql_stmt_execute(bulk->statement) != 0)
        return failed(db, bulk->statement);
    *affected_out = mysql_stmt_affected_rows(bulk->statement);
    return DB_OK;
}

void bulk_close(struct bulk *bulk)
{
    if (bulk->statement)
        mysql_stmt_close(bulk->statement);
    bulk->statement = NULL;
}

MYSQL_BIND bulk_bind(enum enum_field_types type, void *value, unsigned long *length,
                     bulk_null *is_null)
{
    MYSQL_BIND bind = {.buffer_type = type, .buffer = value, .length = length, .is_unsigned = 1};
    if (is_null) {
        bind.is_null = is_null;
        set_indicator(&bind, is_null);
    }
    return bind;
}
