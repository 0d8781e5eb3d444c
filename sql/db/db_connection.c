/* A db's connection: it is made and set up, runs statements, and is found broken. */
#include "sql/db/db_connection.h"

#include <assert.h>
#include <errmsg.h>
#include <fcntl.h>
#include <mysqld_error.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/keepalive.h"
#include "base/memory.h"
#include "base/resolve.h"
#include "sql/db/db_waits.h"

enum {
    ER_CHECK_MARIADB = 4025, /* a CHECK constraint was violated; the headers of the two differ */
    ER_CHECK_MYSQL = 3819,
    ER_LOCK_NOWAIT_MYSQL = 3572, /* MariaDB says ER_LOCK_WAIT_TIMEOUT */
    ROW_WAIT_S = 3,
    BACKOFF_MS_MIN = 20,
    BACKOFF_MS_MAX = 1000,
    PATIENCE_MS = 100, /* between two questions whether to wait on */
};

/* why_pinned: a session begins with the server's global settings, which others chose for other
 * programs. Pinned is each that an ordinary account may set and that could refuse our statements or
 * change what they do: cut the rows of an answer, end a statement early, leave out a check, keep a
 * transaction open. `transaction_read_only` is not: it says that the server takes no writes.
 *
 * Times are UTC. READ COMMITTED lets a batch see what others committed before it. A holder that
 * sleeps between a statement and its commit must not keep its row locks for ever: MariaDB ends idle
 * transactions by idle_transaction_timeout, MySQL 8 by wait_timeout (idle clients just reconnect).
 * Either server takes the other's comment as nothing, so neither stands as a statement of its own:
 * MySQL refuses an empty statement. From 11.6.2 on MariaDB refuses to lock rows that have changed
 * since the snapshot, unless it is told to behave as all other servers do. */
static const char session_setup[] = /* %d: how long to wait for a row */
    "SET SESSION time_zone='+00:00', sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
    "innodb_lock_wait_timeout=%d, group_concat_max_len=16777215, autocommit=1, "
    "completion_type=0, sql_safe_updates=0, sql_big_selects=1, sql_auto_is_null=0, "
    "sql_select_limit=18446744073709551615, foreign_key_checks=1, unique_checks=1, "
    "max_sort_length=1024"
    "/*M!100307 , idle_transaction_timeout=3, check_constraint_checks=1, max_statement_time=0, "
    "alter_algorithm='DEFAULT' */"
    "/*M!110602 , innodb_snapshot_isolation=0 */"
    "/*!80000 , wait_timeout=10, max_execution_time=0 */;"
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

/* Once, because mysql_library_init is not safe in several threads, and mysql_init would call it. */
static void library_start(void)
{
    if (mysql_library_init(0, NULL, NULL) != 0)
        abort();
}

struct db *db_open_one(const char *url, size_t server, int timeout_ms, char *error_out,
                       size_t error_size)
{
    assert(timeout_ms > 0);
    pthread_once(&library_once, library_start);
    struct db *db = calloc(1, sizeof *db);
    if (!db) {
        snprintf(error_out, error_size, "out of memory");
        return NULL;
    }
    if (!url_parse(url, "mysql", &db->url, error_out, error_size)) {
        free(db);
        return NULL;
    }
    assert(server == 0 || server < db->url.server_count);
    db->server = server;
    if (db->url.socket[0] != '\0')
        url_place(url, "mysql", db->server_place);
    else
        url_server_place(db->url.servers[server].host, db->url.servers[server].port,
                         db->server_place);
    strcpy(db->place, db->server_place);
    db->row_wait_s = ROW_WAIT_S;
    db->timeout_ms = timeout_ms;
    db->timeout_s = (unsigned)(timeout_ms + 999) / 1000;
    db->random = (unsigned)clock_now_ms() ^ (unsigned)(uintptr_t)db;
    backoff_init(&db->backoff, BACKOFF_MS_MIN, BACKOFF_MS_MAX, db->random);
    return db;
}

void db_close_one(struct db **db)
{
    if (*db) {
        db_disconnect(*db);
        free((*db)->packet);
    }
    free(*db);
    *db = NULL;
}

void db_forget(struct db **db)
{
    /* Not mysql_close: it would end the session with a COM_QUIT on the socket that both share. */
    if (*db && (*db)->mysql)
        close((int)(*db)->mysql->net.fd);
    *db = NULL;
}

void db_drop_rows(struct db *db)
{
    if (db->rows)
        mysql_free_result(db->rows);
    db->rows = NULL;
}

void db_drop_connection(struct db *db)
{
    db_drop_rows(db);
    if (db->mysql)
        mysql_close(db->mysql);
    db->mysql = NULL;
    db->prepared_count = 0;
}

void db_disconnect(struct db *db)
{
    db_drop_connection(db);
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

bool db_has_time(const struct db *db)
{
    return clock_now_ms() < db->until_ms;
}

int db_wait_ms(const struct db *db)
{
    if (db->until_ms == 0)
        return db->timeout_ms;
    int64_t left_ms = db->until_ms - clock_now_ms();
    return left_ms > 1 ? (int)left_ms : 1;
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

/* What the last write has become is told on its connection, or never. */
static void hand_over(struct db *db)
{
    db_drop_rows(db);
    for (size_t i = 0; i < db->prepared_count; i++) { /* other threads may close the connection */
        mysql_stmt_close(*db->prepared[i]);
        *db->prepared[i] = NULL;
    }
    db->prepared_count = 0;
    db_waits_add(db->mysql, db->server_name, db->waited_ms);
    db->mysql = NULL;
}

enum db_result db_statement_error(struct db *db, unsigned code, const char *text)
{
    db_keep_error(db, code, text);
    /* The client library knows nothing of an answer that only this process calls late, but the
     * connection is of no use: the next query would read the late answer as its own. */
    if (db->late) {
        code = CR_SERVER_LOST;
        snprintf(db->error, sizeof db->error, "%u: no answer in %d ms", code, db->waited_ms);
        if (db_writes(db->doing, db->doing_length))
            hand_over(db);
    }
    db->late = false;
    switch (code) {
    case ER_LOCK_WAIT_TIMEOUT:
    case ER_LOCK_NOWAIT_MYSQL:
        db->held = true;
        describe(db, db->soft);
        return DB_SOFT;
    case ER_LOCK_DEADLOCK:
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
                   code == ER_ERROR_DURING_COMMIT /* of a statement that commits by itself */ ||
                   code == 1927 /* MariaDB: connection was killed */ ||
                   code == 4031 /* MySQL: it was idle for too long */;
    if (client_side || cut_off) { /* the server may have done the statement all the same */
        db->in_doubt = true;
        db_disconnect(db);
    } else if (is_demoted(code)) {
        leave(db);
    }
    return DB_FAILED;
}

/* ---- statements ---- */

static enum db_result query_error(struct db *db)
{
    return db_statement_error(db, mysql_errno(db->mysql), mysql_error(db->mysql));
}

/* False when the connection broke amid the rows: the statement was done, and its result is lost. */
static bool keep_result(struct db *db)
{
    MYSQL_RES *rows = mysql_store_result(db->mysql);
    if (!rows && mysql_errno(db->mysql) != 0)
        return false;
    if (rows) { /* of several statements the last with rows is the one that is asked for */
        db_drop_rows(db);
        db->rows = rows;
    }
    if (db->statements < DB_STATEMENTS_MAX)
        db->affected[db->statements++] = mysql_affected_rows(db->mysql);
    return true;
}

/* Nobody waits for the first answer of a server that was left for another one. */
static bool answer_comes(struct db *db)
{
    struct pollfd answer = {.fd = (int)db->mysql->net.fd, .events = POLLIN};
    int left_ms = db_wait_ms(db);
    bool came;
    db->waited_ms = 0;
    do {
        int slice_ms = db->go_on || left_ms > PATIENCE_MS ? PATIENCE_MS : left_ms;
        came = poll(&answer, 1, slice_ms) != 0;
        db->waited_ms += slice_ms;
        left_ms -= slice_ms;
    } while (!came && (db->go_on ? db->go_on(db->patience_context)
                                 : left_ms > 0 && !(db->is_left && db->is_left(db))));
    return came;
}

bool db_writes(const char *text, size_t length)
{
    static const char *const verbs[] = {"INSERT ", "UPDATE ", "DELETE ", "REPLACE "};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (length > strlen(verbs[i]) && strncmp(text, verbs[i], strlen(verbs[i])) == 0)
            return true;
    return false;
}

/* The client library counts its time-outs in seconds, so the wait for the first answer is measured
 * here. */
static int query_in_time(struct db *db, const char *text, size_t length)
{
    int failed = mysql_send_query(db->mysql, text, (unsigned long)length);
    if (failed)
        return failed;
    db->late = !answer_comes(db);
    return db->late || mysql_read_query_result(db->mysql) ? 1 : 0;
}

/* Sends the text, with START TRANSACTION in the same packet when that is still due: it saves a
 * round trip. */
static int send_query(struct db *db, const char *text, size_t length)
{
    static const char begin[] = "START TRANSACTION;";
    const size_t head = sizeof begin - 1;
    if (!db->begin)
        return query_in_time(db, text, length);
    db->begin = false;
    if (db->packet_size < head + length) {
        free(db->packet);
        db->packet_size = 2 * (head + length);
        db->packet = memory_must(malloc(db->packet_size));
    }
    memcpy(db->packet, begin, head);
    memcpy(db->packet + head, text, length);
    /* The first result is that of START TRANSACTION; the text's own results begin behind it. */
    int failed = query_in_time(db, db->packet, head + length);
    return failed ? failed : mysql_next_result(db->mysql);
}

enum db_result db_commit(struct db *db)
{
    static const char text[] = "COMMIT";
    int was_ms = db->timeout_ms;
    db->timeout_ms = (int)db->timeout_s * 1000;
    db->doing = text;
    db->doing_length = sizeof text - 1;
    int failed = query_in_time(db, text, sizeof text - 1);
    db->timeout_ms = was_ms;
    if (!failed)
        return DB_OK;
    unsigned code = db->late ? CR_SERVER_LOST : mysql_errno(db->mysql);
    db_keep_error(db, code, db->late ? "no answer in time" : mysql_error(db->mysql));
    if (code == ER_LOCK_DEADLOCK || code == ER_LOCK_WAIT_TIMEOUT) {
        strcpy(db->soft, text);
        return DB_SOFT;
    }
    if (db->late)
        hand_over(db);
    db->late = false;
    db_note_fault(db);
    db_disconnect(db);
    return DB_UNKNOWN;
}

enum db_result db_execute(struct db *db, const char *text, size_t length)
{
    db->in_doubt = false;
    db->held = false;
    db->statements = 0;
    db_drop_rows(db);
    if (!db->mysql)
        return DB_FAILED;
    db->doing = text;
    db->doing_length = length;
    int more = send_query(db, text, length);
    if (more != 0)
        return query_error(db);
    do {
        if (!keep_result(db))
            return query_error(db);
        more = mysql_next_result(db->mysql);
        if (more > 0)
            return query_error(db);
    } while (more == 0);
    return DB_OK;
}

char **db_row(struct db *db)
{
    return db->rows ? mysql_fetch_row(db->rows) : NULL;
}

/* ---- the connect ---- */

static void set_file(MYSQL *mysql, enum mysql_option option, const char *path)
{
    if (path[0] != '\0')
        mysql_options(mysql, option, path);
}

/* The connect fails unless the server speaks TLS and shows a certificate of the host, signed by an
 * authority of `ca` or of the system. Without either, Connector/C 3.4 trusts any certificate of a
 * server that knows the user's password. The two libraries have different options for that. */
static void demand_tls(MYSQL *mysql, const struct url *url)
{
    set_file(mysql, MYSQL_OPT_SSL_CERT, url->cert);
    set_file(mysql, MYSQL_OPT_SSL_KEY, url->key);
    if (url->ca[0] != '\0')
        mysql_options(mysql, MYSQL_OPT_SSL_CA, url->ca);
    else
        mysql_options(mysql, MYSQL_OPT_SSL_CAPATH, "/etc/ssl/certs");
#ifdef MARIADB_PACKAGE_VERSION
    static const my_bool yes = 1;
    mysql_options(mysql, MARIADB_OPT_TLS_PASSPHRASE, ""); /* else OpenSSL asks at the terminal */
    mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &yes);
    mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
#else
    static const unsigned mode = SSL_MODE_VERIFY_IDENTITY;
    mysql_options(mysql, MYSQL_OPT_SSL_MODE, &mode);
#endif
    mysql_options(mysql, MYSQL_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3");
}

/* The connect is without TLS, whatever the server offers. Connector/C 3.4 demands TLS unless it is
 * told otherwise, and Debian's does not; MySQL's library takes what it gets, and needs a server's
 * key in order to send a password without TLS. */
static void forgo_tls(MYSQL *mysql)
{
#ifdef MARIADB_PACKAGE_VERSION
    static const my_bool no = 0;
    mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &no);
    mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &no);
#else
    static const unsigned mode = SSL_MODE_DISABLED;
    static const bool yes = true;
    mysql_options(mysql, MYSQL_OPT_SSL_MODE, &mode);
    mysql_options(mysql, MYSQL_OPT_GET_SERVER_PUBLIC_KEY, &yes);
#endif
}

/* Connects to one address, or by the socket. False with the error kept and no connection. */
static bool connect_to(struct db *db, const char *host)
{
    const struct url *url = &db->url;
    /* The client library takes a socket only for the host "localhost", and for that host takes the
     * machine's default socket, another server perhaps, unless it is told to use TCP. */
    const char *socket = url->socket[0] != '\0' ? url->socket : NULL;
    const unsigned protocol = socket ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    db->mysql = mysql_init(NULL);
    if (!db->mysql)
        return false;
    unsigned connect_s = (unsigned)(db_wait_ms(db) + 999) / 1000;
    mysql_options(db->mysql, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
    mysql_options(db->mysql, MYSQL_OPT_READ_TIMEOUT, &db->timeout_s);
    mysql_options(db->mysql, MYSQL_OPT_WRITE_TIMEOUT, &db->timeout_s);
    mysql_options(db->mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options(db->mysql, MYSQL_OPT_PROTOCOL, &protocol);
    if (url->tls)
        demand_tls(db->mysql, url);
    else
        forgo_tls(db->mysql);
    if (mysql_real_connect(db->mysql, socket ? "localhost" : host, url->user, url->password,
                           url->database, url->servers[db->server].port, socket,
                           CLIENT_MULTI_STATEMENTS))
        return true;
    db_keep_error(db, mysql_errno(db->mysql), mysql_error(db->mysql));
    mysql_close(db->mysql);
    db->mysql = NULL;
    return false;
}

/* Tries the addresses of the server's name in turn, and begins none when the time is over. Over TLS
 * the client library gets the name, to which it compares the certificate, and looks it up again: a
 * name that is slow to find has failed by then. */
static bool connect_now(struct db *db)
{
    struct resolved found;
    const struct url *url = &db->url;
    const char *host = url->servers[db->server].host;
    if (url->socket[0] != '\0')
        return connect_to(db, host);
    const char *wrong = resolve_host(host, db_wait_ms(db), &found);
    if (wrong)
        db_keep_error(db, CR_UNKNOWN_HOST, wrong);
    if (!wrong && url->tls)
        return connect_to(db, host);
    bool connected = false;
    for (size_t i = 0; i < found.count && !connected && (i == 0 || db_has_time(db)); i++)
        connected = connect_to(db, found.addresses[i]);
    return connected;
}

bool db_connect_server(struct db *db, int64_t until_ms)
{
    db->until_ms = until_ms;
    if (!connect_now(db))
        return false;
    /* A program that this process starts must not keep the connection open. */
    fcntl((int)db->mysql->net.fd, F_SETFD, FD_CLOEXEC);
    keepalive_set((int)db->mysql->net.fd); /* of a write that nobody answers, too */
    char setup[sizeof session_setup + 16];
    int length = snprintf(setup, sizeof setup, session_setup, db->row_wait_s);
    bool set_up = db_execute(db, setup, (size_t)length) == DB_OK;
    if (!set_up)
        db_drop_connection(db);
    return set_up;
}
