/* Private to sql/: prepared statements that one call executes for many rows, MariaDB's bulk
 * binding. It spares the server the parsing, and an item per value and row. */
#ifndef SQL_BULK_H
#define SQL_BULK_H

#include "sql/db/db_connection.h"

/* my_bool in MariaDB's header, bool in MySQL's. */
typedef __typeof__(*((MYSQL_BIND *)0)->is_null) bulk_null;

/* A statement, zero-initialised before its first use. */
struct bulk {
    MYSQL_STMT *statement;
    uint64_t connection; /* on which it was prepared, as db_stats counts them */
};

/* True when the server takes bulk bindings: MariaDB does, MySQL does not. Within db_run. */
bool bulk_supported(struct db *db);

/* Within db_run, after its first query: executes `text`, with placeholders for one row, for `count`
 * > 0 rows, which lie `row_size` bytes apart. `binds` binds the first row; it and the place of the
 * rows are the same in every call with this `bulk`. It stops at the first row that fails. Results
 * as db_query; `affected_out`: the sum of all rows. */
enum db_result bulk_execute(struct bulk *bulk, struct db *db, const char *text, MYSQL_BIND *binds,
                            size_t row_size, size_t count, uint64_t *affected_out);

/* Frees the statement; before or after its connection is closed. */
void bulk_close(struct bulk *bulk);

/* Binds a value of the first row; NULL for a value that has no length, or is never SQL NULL. */
MYSQL_BIND bulk_bind(enum enum_field_types type, void *value, unsigned long *length,
                     bulk_null *is_null);

#endif
