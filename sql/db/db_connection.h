/* Private to sql/: the inside of a db, its connection, and what errors mean. */
#ifndef SQL_DB_CONNECTION_H
#define SQL_DB_CONNECTION_H

#include <mysql.h>

#include "base/fault.h"
#include "base/url.h"
#include "sql/db/db.h"

struct db_servers;

enum { DB_ROLE_NAME_SIZE = 96, DB_PREPARED_MAX = 8 };

struct db {
    MYSQL *mysql; /* NULL while there is no connection */
    MYSQL_RES *rows;
    struct url url;
    size_t server;              /* which of the url's it connects to */
    struct db_servers *servers; /* NULL: the url names one, or the db is for one of them */
    uint64_t servers_number;    /* of the choice that the connection goes by */
    unsigned timeout_s;
    int timeout_ms;
    int64_t until_ms; /* of a connect that is being made: no wait goes beyond; 0: none is made */
    struct backoff backoff;
    unsigned random;
    bool in_run; /* between db_run's begin and end, where nothing may reconnect */
    bool begin;  /* the transaction begins with the next query, in the same packet */
    bool in_doubt;
    bool (*is_left)(const struct db *db); /* another server is to be written to; NULL: of one */
    bool late;                            /* the last query was not answered in time, */
    int waited_ms;                        /* which was this long */
    bool (*go_on)(void *context);         /* see db_set_patience */
    void *patience_context;
    MYSQL_STMT **prepared[DB_PREPARED_MAX]; /* on this connection; their owner closes them */
    size_t prepared_count;
    char *packet; /* START TRANSACTION and the first query */
    size_t packet_size;
    size_t statements;
    uint64_t affected[DB_STATEMENTS_MAX];
    char error[256];
    const char *doing; /* the text of the statements that run in this call; NULL: it connects */
    size_t doing_length;
    int row_wait_s;
    bool held;     /* see db_met_held_row */
    char soft[48]; /* what met a deadlock or waited for a lock last */
    struct fault fault;
    char place[URL_PLACE_SIZE];
    char server_place[URL_PLACE_SIZE];
    char server_name[DB_ROLE_NAME_SIZE]; /* the server's own; its place may lead to another one */
    struct db_stats stats;
};

/* A client of one server of the url, by its place, that asks nobody whether to write to it. */
struct db *db_open_one(const char *url, size_t server, int timeout_ms, char *error_out,
                       size_t error_size);

/* Closes it, frees it and sets the pointer to NULL; NULL is fine. */
void db_close_one(struct db **db);

/* Connects to the db's server and sets the session up, by `until_ms`, which stays set. False:
 * db->error says why, and there is no connection. */
bool db_connect_server(struct db *db, int64_t until_ms);

/* Runs statements as db_query does, on the present connection: DB_FAILED without one. */
enum db_result db_execute(struct db *db, const char *text, size_t length);

/* Commits on the present connection. DB_OK, DB_SOFT or DB_UNKNOWN.
 *
 * why_unknown: only a deadlock or a lock wait says for certain that a commit did not happen. Else
 * the server may have written it before it died or was told to stop. */
enum db_result db_commit(struct db *db);

/* True for a statement that by itself commits what it changes. */
bool db_writes(const char *text, size_t length);

/* True before db->until_ms; and how long an answer may be waited for: the time-out, or what is left
 * of it while connecting. */
bool db_has_time(const struct db *db);
int db_wait_ms(const struct db *db);

/* Says what an error of a statement (not of a commit) means; closes the connection unless it can
 * still be used. */
enum db_result db_statement_error(struct db *db, unsigned code, const char *text);

/* Closes the connection, if there is one; and counts it as lost. */
void db_drop_connection(struct db *db);
void db_disconnect(struct db *db);

/* Frees the rows of the last query. */
void db_drop_rows(struct db *db);

/* Keeps the error for db_error; and notes it for db_fault, with the kind of statement and its
 * table. */
void db_keep_error(struct db *db, unsigned code, const char *text);
void db_note_fault(struct db *db);

#endif
