/* One connection to a MySQL or MariaDB server: queries, transactions, and what became of them. */
#ifndef SQL_DB_H
#define SQL_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;
struct fault;

enum db_result {
    DB_OK,
    DB_NO,        /* the caller's own refusal, from the body of db_run: rolled back */
    DB_DUPLICATE, /* a unique key was violated: rolled back */
    DB_CHECK,     /* a CHECK constraint was violated: rolled back */
    DB_SOFT,      /* deadlock or lock wait: rolled back, may be tried again, as db_run does */
    DB_FAILED,    /* certainly not done; the client also leaves a server that takes no writes */
    DB_UNKNOWN,   /* the commit was sent and not answered: it may be done */
};

struct db_stats {
    uint64_t connects; /* connections made, the first included */
    uint64_t failures; /* connections lost or not made */
    uint64_t retries;  /* transactions tried again after a deadlock or a lock wait */
};

/* Makes a client of `url` (mysql://user[:password]@host[:port][,host[:port]...]/db[?socket=/path],
 * or mysqls:// over TLS) without connecting. It belongs to one thread at a time; the caller closes
 * it. NULL, with the reason in `error_out`, when the url is not of that form.
 *
 * Several hosts hold the same data, and one takes writes: the client finds it and writes to no
 * other, whatever the others accept. It looks again whenever a connect fails or a server refuses
 * writes, and changes over, between two transactions, when db_look has found another one. It does
 * not connect while two servers take writes that are not nodes of one Galera cluster.
 *
 * `timeout_ms` bounds each wait for an answer to a query. Rounded up to seconds, as the client
 * library counts them, it bounds a commit and a connect, including name look-up, search for the
 * server that takes writes and session set-up. A server that answers part of a connect and then
 * hangs may add as much again. Over TLS the library looks the name up once more, without a bound.
 */
struct db *db_open(const char *url, int timeout_ms, char *error_out, size_t error_size);

/* Bounds each further wait for an answer to a query by `timeout_ms`; returns the former bound.
 * Applies only to the first statement of a query. */
int db_set_timeout(struct db *db, int timeout_ms);

/* From now on waits for the answer to a query's first statement as long as `go_on`, asked every 100
 * ms, returns true; NULL restores the time-out. For statements that change tables. */
void db_set_patience(struct db *db, bool (*go_on)(void *context), void *context);

/* Closes the connection, frees the client and sets the pointer to NULL. */
void db_close(struct db **db);

/* For a child of fork: closes its copy of the descriptor without telling the server, because the
 * session is the parent's, and sets the pointer to NULL. The memory leaks. */
void db_forget(struct db **db);

/* Makes sure there is a connection, in place of one that its server has ended. After a failed try,
 * further tries fail at once for a delay that doubles from 20 ms to 1 s, with jitter. DB_OK or
 * DB_FAILED. */
enum db_result db_connect(struct db *db);

/* True while there is a connection that has not been found broken. */
bool db_connected(const struct db *db);

/* With several servers, asks all of them again which one takes writes, if it last did so
 * DB_LOOK_EVERY_MS ago; does not wait for the answers. Call it often, to notice a change that
 * causes no error. Any thread. */
enum { DB_LOOK_EVERY_MS = 2000 };
void db_look(struct db *db);

/* True while several servers take writes that are not one cluster. Any thread. */
bool db_split(const struct db *db);

/* The writes that the server of the present or last connection has not answered in time, which stay
 * open until they are answered or break (db_waits.h). While it owes DB_WAITS_MAX answers, the first
 * for longer than a row is waited for, db_run and statements that write fail at once. */
enum { DB_WAITS_MAX = 8 };

struct db_wait {
    size_t count;          /* 0: none, and the members below are 0 */
    int64_t ms;            /* for how long the first one has waited */
    unsigned long session; /* of the first one, by the server's number */
    bool full;             /* a further write would fail */
};

struct db_wait db_wait(const struct db *db);

/* Pings the server, connecting if need be. DB_OK or DB_FAILED. */
enum db_result db_ping(struct db *db);

/* Runs one statement, or several with semicolons between them; within db_run as part of its
 * transaction, else each by itself. Stops at the first that fails. Keeps the rows of the last
 * statement that has any for db_row. DB_OK, DB_DUPLICATE, DB_CHECK, DB_SOFT or DB_FAILED;
 * db_in_doubt tells whether a statement outside db_run may have been done. */
enum db_result db_query(struct db *db, const char *text, size_t length);

/* Bounds a statement's wait for a row that another transaction holds; 3 s by default. Call it
 * before the first connection. */
void db_set_row_wait(struct db *db, int seconds);

/* True when the last db_run, or the last db_query outside of one, failed because another
 * transaction held a row for longer than that, or at all where the statement must not wait. */
bool db_met_held_row(const struct db *db);

/* True when the connection was lost after the last db_query was sent, before it was answered. */
bool db_in_doubt(const struct db *db);

/* Rows changed by the i-th statement of the last db_query (at most DB_STATEMENTS_MAX are kept). */
enum { DB_STATEMENTS_MAX = 2048 };
uint64_t db_affected(const struct db *db, size_t i);

/* Returns the next row of the last query as columns of text (NULL for SQL NULL), or NULL after the
 * last. Valid until the next call on this db. */
char **db_row(struct db *db);

/* A transaction, zero-initialised:
 *
 *     while (db_run(db, &run))
 *         run.result = body(...);
 *
 * The body calls db_query and returns its result, by which db_run commits or rolls back. db_run
 * repeats the body after a deadlock, up to 5 tries in all, with a short random pause; after a
 * connection lost before the commit, once; after too long a wait for a held row never (DB_FAILED),
 * as it would wait for the same row. So a body must be repeatable and must not reply to anybody. At
 * the end `result` is the body's, or DB_UNKNOWN: the connection died in the commit. Nothing may
 * leave the loop in any other way. */
struct db_run {
    enum db_result result;
    int tries; /* private, as is `lost` */
    bool lost;
};

bool db_run(struct db *db, struct db_run *run);

/* The last error in words; empty before the first. */
const char *db_error(const struct db *db);

/* Failures since the caller last cleared it: of connects, connections, late answers, commits in
 * doubt, refused statements, transactions that met others in every try, queries during the delay
 * after a failed connect. Errors that the caller's values caused do not count. */
struct fault *db_fault(struct db *db);

/* The servers' addresses for messages: "host:port", several with commas between, or a socket. Valid
 * as long as the db; any thread. */
const char *db_place(const struct db *db);

/* The address of the present connection's server, or of the last one's. For the db's thread. */
const char *db_server(const struct db *db);

/* Returns the number of servers in the URL. */
size_t db_server_count(const struct db *db);

struct db_stats db_stats(const struct db *db);

#endif
