/* A db's connection: made, set up, found broken, and what the server's errors say of it. */
#include "sql/db_connection.h"

#include <assert.h>
#include <errmsg.h>
#include <fcntl.h>
#include <mysqld_error.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/resolve.h"

enum {
    ER_CHECK_MARIADB = 4025, /* a CHECK constraint was violated; the headers of the two differ */
    ER_CHECK_MYSQL = 3819,
};

/* Times are UTC. READ COMMITTED lets a batch see what others committed before it. A holder that
 * sleeps between a statement and its commit must not keep its row locks for ever: MariaDB ends idle
 * transactions by idle_transaction_timeout, MySQL 8 by wait_timeout (idle clients just reconnect).
 * Either server takes the other's comment as nothing, so neither stands as a statement of its own:
 * MySQL refuses an empty statement. */
static const char session_setup[] =
    "SET SESSION time_zone='+00:00', sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
    "innodb_lock_wait_timeout=3, group_concat_max_len=16777215, autocommit=1"
    "/*M!100300 , idle_transaction_timeout=3 *//*!80000 , wait_timeout=10 */;"
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

void db_drop_rows(struct db *db)
{
    if (db->rows)
        mysql_free_result(db->rows);
    db->rows = NULL;
}

void db_disconnect(struct db *db)
{
    db_drop_rows(db);
    if (db->mysql)
        mysql_close(db->mysql);
    db->mysql = NULL;
    db->stats.failures++;
}

void db_keep_error(struct db *db, unsigned code, const char *text)
{
    snprintf(db->error, sizeof db->error, "%u: %s", code, text);
}

/* Reads a word and moves on behind it. */
static void next_word(const char **at, char *word_out, size_t size)
{
    *at += strspn(*at, " ;");
    size_t length = strcspn(*at, " (;,=");
    snprintf(word_out, size, "%.*s", (int)length, *at);
    *at += length;
}

/* "UPDATE orders": the table stands behind UPDATE, INTO, or the first FROM. The text has no NUL at
 * its end, and may be long; what is asked for stands in its beginning. */
static void describe(const struct db *db, char out[48])
{
    char head[512], verb[16], table[28] = "";
    size_t length = db->doing_length < sizeof head ? db->doing_length : sizeof head - 1;
    snprintf(head, sizeof head, "%.*s", (int)length, db->doing);
    const char *at = head, *from;
    next_word(&at, verb, sizeof verb);
    if (strcmp(verb, "UPDATE") == 0)
        next_word(&at, table, sizeof table);
    else if ((from = strstr(at, "INTO ")) != NULL || (from = strstr(at, "FROM ")) != NULL) {
        at = from + 5;
        next_word(&at, table, sizeof table);
    }
    snprintf(out, 48, "%s%s%s", verb, table[0] ? " " : "", table);
}

void db_note_fault(struct db *db)
{
    char doing[48] = "connect";
    if (db->doing)
        describe(db, doing);
    fault_note(&db->fault, doing, db->error);
}

static enum db_result connect_failed(struct db *db)
{
    db_note_fault(db);
    db_disconnect(db);
    backoff_fail(&db->backoff, clock_now_ms());
    return DB_FAILED;
}

/* Connects to one address, or by the socket. False with the error kept and no connection. */
static bool connect_to(struct db *db, const char *host)
{
    const struct url *url = &db->url;
    /* The client library takes the socket only for the host "localhost". */
    const char *socket = url->socket[0] != '\0' ? url->socket : NULL;
    db->mysql = mysql_init(NULL);
    if (!db->mysql)
        return false;
    mysql_options(db->mysql, MYSQL_OPT_CONNECT_TIMEOUT, &db->timeout_s);
    mysql_options(db->mysql, MYSQL_OPT_READ_TIMEOUT, &db->timeout_s);
    mysql_options(db->mysql, MYSQL_OPT_WRITE_TIMEOUT, &db->timeout_s);
    mysql_options(db->mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (mysql_real_connect(db->mysql, socket ? "localhost" : host, url->user, url->password,
                           url->database, url->servers[0].port, socket, CLIENT_MULTI_STATEMENTS))
        return true;
    db_keep_error(db, mysql_errno(db->mysql), mysql_error(db->mysql));
    mysql_close(db->mysql);
    db->mysql = NULL;
    return false;
}

/* Tries the addresses of the server's name in turn, and begins none after the time-out. The client
 * library knows "localhost" as the server's own socket. */
static bool connect_now(struct db *db)
{
    struct resolved found;
    const struct url *url = &db->url;
    const char *host = url->servers[0].host;
    if (url->socket[0] != '\0' || strcmp(host, "localhost") == 0)
        return connect_to(db, host);
    int64_t until_ms = clock_now_ms() + db->timeout_ms;
    const char *wrong = resolve_host(host, db->timeout_ms, &found);
    if (wrong)
        db_keep_error(db, CR_UNKNOWN_HOST, wrong);
    bool connected = false;
    for (size_t i = 0; i < found.count && !connected && (i == 0 || clock_now_ms() < until_ms); i++)
        connected = connect_to(db, found.addresses[i]);
    return connected;
}

enum db_result db_connection_make(struct db *db)
{
    /* Fails at once while the delay lasts: an outage must not cost each call a connect time-out. */
    db->doing = NULL;
    if (!backoff_over(&db->backoff, clock_now_ms())) {
        fault_note(&db->fault, db->fault.doing, db->error);
        return DB_FAILED;
    }
    if (!connect_now(db))
        return connect_failed(db);
    /* A program that this process starts must not keep the connection open. */
    fcntl((int)db->mysql->net.fd, F_SETFD, FD_CLOEXEC);
    if (db_query(db, session_setup, sizeof session_setup - 1) != DB_OK)
        return connect_failed(db);
    backoff_reset(&db->backoff);
    db->stats.connects++;
    return DB_OK;
}

/* A server that refuses whatever is written: a primary that became a replica, or a node that left
 * its cluster. */
static bool is_demoted(unsigned code)
{
    switch (code) {
    case ER_OPTION_PREVENTS_STATEMENT:             /* read_only, super_read_only */
    case ER_READ_ONLY_MODE:                        /* innodb_read_only */
    case ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION: /* transaction_read_only */
    case ER_UNKNOWN_COM_ERROR:                     /* Galera: the node is not in its cluster */
        return true;
    default:
        return false;
    }
}

/* The name may lead to another server by now, so the next use connects anew; after a delay, because
 * a server that stays as it is would be connected to for every call. */
static void leave(struct db *db)
{
    db_disconnect(db);
    backoff_fail(&db->backoff, clock_now_ms());
}

enum db_result db_statement_error(struct db *db, unsigned code, const char *text)
{
    db_keep_error(db, code, text);
    /* The client library knows nothing of an answer that only this process calls late, but the
     * connection is of no use: the next query would read the late answer as its own. */
    if (db->late) {
        code = CR_SERVER_LOST;
        snprintf(db->error, sizeof db->error, "%u: no answer in %d ms", code, db->timeout_ms);
    }
    db->late = false;
    switch (code) {
    case ER_LOCK_DEADLOCK:
    case ER_LOCK_WAIT_TIMEOUT:
    case ER_CHECKREAD: /* MariaDB, innodb_snapshot_isolation: another has changed the row */
        describe(db, db->soft);
        return DB_SOFT;
    case ER_DUP_ENTRY:
        return DB_DUPLICATE;
    case ER_CHECK_MARIADB:
    case ER_CHECK_MYSQL:
        return DB_CHECK;
    default:
        break;
    }
    db_note_fault(db);
    bool client_side = code >= CR_MIN_ERROR && code < 3000;
    bool cut_off = code == ER_SERVER_SHUTDOWN || code == ER_QUERY_INTERRUPTED ||
                   code == 1927 /* MariaDB: connection was killed */;
    if (client_side || cut_off) { /* the server may have done the statement all the same */
        db->in_doubt = true;
        db_disconnect(db);
    } else if (is_demoted(code)) {
        leave(db);
    }
    return DB_FAILED;
}

MYSQL *db_handle(struct db *db)
{
    assert(db->in_run && !db->begin);
    return db->mysql;
}

uint64_t db_generation(const struct db *db)
{
    return db->stats.connects;
}
