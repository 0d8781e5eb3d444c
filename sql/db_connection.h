/* Private to sql/: the inside of a db, its connection, and what errors mean. */
#ifndef SQL_DB_CONNECTION_H
#define SQL_DB_CONNECTION_H

#include <mysql.h>

#include "base/backoff.h"
#include "base/fault.h"
#include "base/url.h"
#include "sql/db.h"

struct db {
    MYSQL *mysql; /* NULL while there is no connection */
    MYSQL_RES *rows;
    struct url url;
    unsigned timeout_s;
    int timeout_ms;
    struct backoff backoff;
    unsigned random;
    bool in_run; /* between db_run's begin and end, where nothing may reconnect */
    bool begin;  /* the transaction begins with the next query, in the same packet */
    bool in_doubt;
    bool late;                    /* the last query was not answered in time */
    bool (*go_on)(void *context); /* see db_set_patience */
    void *patience_context;
    char *packet; /* START TRANSACTION and the first query */
    size_t packet_size;
    size_t statements;
    uint64_t affected[DB_STATEMENTS_MAX];
    uint64_t insert_id;
    char error[256];
    const char *doing; /* the text of the statements that run in this call; NULL: it connects */
    size_t doing_length;
    char soft[48]; /* what met a deadlock or waited for a lock last */
    struct fault fault;
    char place[URL_PLACE_SIZE];
    struct db_stats stats;
};

/* Makes a connection; the db must have none. DB_FAILED at once while the delay after a failed try
 * lasts. */
enum db_result db_connection_make(struct db *db);

/* The present connection. Only within db_run, after its first query. */
MYSQL *db_handle(struct db *db);

/* Counts the connections: statements prepared on an earlier one no longer exist. */
uint64_t db_generation(const struct db *db);

/* Says what an error of a statement (not of a commit) means; closes the connection unless it can
 * still be used. */
enum db_result db_statement_error(struct db *db, unsigned code, const char *text);

/* Closes the connection, if there is one, and counts it as lost. */
void db_disconnect(struct db *db);

/* Frees the rows of the last query. */
void db_drop_rows(struct db *db);

/* Notes the last error for db_fault, with the kind of statement and its table. */
void db_note_fault(struct db *db);

/* Keeps the error for db_error. */
void db_keep_error(struct db *db, unsigned code, const char *text);

#endif
