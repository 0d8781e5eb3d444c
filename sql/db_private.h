/* Private to sql/: the connection behind a db, for prepared statements. */
#ifndef SQL_DB_PRIVATE_H
#define SQL_DB_PRIVATE_H

#include <mysql.h>

#include "sql/db.h"

/* The present connection, or NULL. Only within db_run, after its first query. */
MYSQL *db_handle(struct db *db);

/* Grows with every connection: what was prepared on an older one is gone. */
uint64_t db_generation(const struct db *db);

/* What an error of a statement (not of a commit) means; closes the connection unless it can go on
 * being used. */
enum db_result db_statement_error(struct db *db, unsigned code, const char *text);

#endif
