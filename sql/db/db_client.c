/* A client: the server that it writes to, queries, transactions, and what became of them. */
#include "sql/db/db.h"

#include <assert.h>
#include <errmsg.h>
#include <mysqld_error.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sql/db/db_connection.h"
#include "sql/db/db_servers.h"
#include "sql/db/db_waits.h"

enum { RUN_TRIES_MAX = 5 };

/* A node of Galera shows what others have committed a moment later. A SELECT, or the beginning of a
 * transaction, waits until it shows all that was committed before: what refuses an order, finds a
 * key or counts a segment again must not look at the past, when the writer has just changed. */
static const char galera_setup[] = "SET SESSION wsrep_sync_wait=1";

static bool is_left(const struct db *db)
{
    uint64_t number;
    db_servers_present(db->servers, &number);
    return number != db->servers_number;
}

struct db *db_open(const char *url, int timeout_ms, char *error_out, size_t error_size)
{
    struct db *db = db_open_one(url, 0, timeout_ms, error_out, error_size);
    if (!db)
        return NULL;
    if (db_server_count(db) == 1)
        return db;
    url_place(url, "mysql", db->place);
    db->servers = db_servers_get(url);
    db->is_left = is_left;
    return db;
}

int db_set_timeout(struct db *db, int timeout_ms)
{
    assert(timeout_ms > 0);
    int was_ms = db->timeout_ms;
    db->timeout_ms = timeout_ms;
    return was_ms;
}

void db_set_patience(struct db *db, bool (*go_on)(void *context), void *context)
{
    db->go_on = go_on;
    db->patience_context = context;
}

void db_close(struct db **db)
{
    if (*db)
        db_servers_drop(&(*db)->servers);
    db_close_one(db);
}

/* ---- the connection, to one of several servers ---- */

static enum db_result connect_failed(struct db *db)
{
    db_note_fault(db);
    db_disconnect(db);
    backoff_fail(&db->backoff, clock_now_ms());
    return DB_FAILED;
}

/* Of a server that the url names alone only that it is a node of Galera matters: an address that
 * leads to a read-only server serves look-ups, and may lead to another one soon. */
static bool suits(struct db *db)
{
    struct db_role role;
    if (db_role_ask(db, &role) != DB_OK)
        return false;
    memcpy(db->server_name, role.server, sizeof db->server_name);
    if (db->servers && !role.writable) {
        char why[DB_SERVERS_WHY_SIZE];
        snprintf(why, sizeof why, "%.100s: %s", db->server_place, role.why);
        db_keep_error(db, ER_OPTION_PREVENTS_STATEMENT, why);
        return false;
    }
    return role.cluster[0] == '\0' ||
           db_execute(db, galera_setup, sizeof galera_setup - 1) == DB_OK;
}

static bool try_server(struct db *db, int server, uint64_t number, int64_t until_ms)
{
    const struct url_server *at = &db->url.servers[server];
    db->server = (size_t)server;
    db->servers_number = number;
    url_server_place(at->host, at->port, db->server_place);
    if (db_connect_server(db, until_ms) && suits(db))
        return true;
    db_drop_connection(db);
    return false;
}

/* First where the others write, for half of the time: that server may hang. When that fails, where
 * a look finds the writable one to be. A look that is not over says nothing new of the server that
 * was tried. */
static bool connect_writable(struct db *db, int64_t until_ms)
{
    uint64_t number = 0, tried = 0;
    char why[DB_SERVERS_WHY_SIZE];
    unsigned code = 0;
    int server = db_servers_present(db->servers, &tried);
    bool untried = server < 0;
    if (!untried && try_server(db, server, tried, clock_now_ms() + db->timeout_s * 1000 / 2))
        return true;
    db->until_ms = until_ms;
    bool over = db_servers_find(db->servers, db_has_time(db) ? db_wait_ms(db) : 0, &code, why);
    server = db_servers_present(db->servers, &number);
    bool found = code == 0 && server >= 0 && (over || untried || number != tried);
    if (found && db_has_time(db))
        return try_server(db, server, number, until_ms);
    if (found && untried)
        db_keep_error(db, CR_CONN_HOST_ERROR, "the time was over when a server was found");
    else if (!found && (over || untried))
        db_keep_error(db, code, why);
    return false;
}

/* Ends the connection when another server is to be written to by now. Not within db_run. */
static void follow_servers(struct db *db)
{
    if (db->servers && db->mysql && is_left(db))
        db_drop_connection(db);
}

/* Ends a connection that its server has ended, as MySQL does after wait_timeout: there is something
 * to read, and nobody has asked. A statement over it would be in doubt. Not within db_run. */
static void leave_ended(struct db *db)
{
    struct pollfd news = {.fd = db->mysql ? (int)db->mysql->net.fd : -1, .events = POLLIN};
    if (poll(&news, 1, 0) > 0)
        db_drop_connection(db);
}

/* Makes a connection; the db must have none. DB_FAILED at once while the delay after a failed try
 * lasts. */
static enum db_result make_connection(struct db *db)
{
    /* Fails at once while the delay lasts: an outage must not cost each call a connect time-out. */
    db->doing = NULL;
    if (!backoff_over(&db->backoff, clock_now_ms())) {
        fault_note(&db->fault, db->fault.doing, db->error);
        return DB_FAILED;
    }
    int64_t until_ms = clock_now_ms() + db->timeout_s * 1000;
    bool connected =
        db->servers ? connect_writable(db, until_ms) : db_connect_server(db, until_ms) && suits(db);
    db->until_ms = 0;
    if (!connected)
        return connect_failed(db);
    backoff_reset(&db->backoff);
    db->stats.connects++;
    return DB_OK;
}

enum db_result db_connect(struct db *db)
{
    follow_servers(db);
    leave_ended(db);
    return db->mysql ? DB_OK : make_connection(db);
}

bool db_connected(const struct db *db)
{
    return db->mysql != NULL;
}

/* ---- queries ---- */

enum db_result db_ping(struct db *db)
{
    return db_query(db, "DO 1", 4);
}

struct db_wait db_wait(const struct db *db)
{
    struct db_wait wait = db_waits_ask(db->server_name);
    wait.full = wait.count >= DB_WAITS_MAX && wait.ms > (db->row_wait_s + 1) * 1000;
    return wait;
}

/* False while the server owes so many answers that a further write would be too many. */
static bool may_write(struct db *db)
{
    struct db_wait wait = db_wait(db);
    if (!db->mysql || !wait.full)
        return true;
    db->in_doubt = db->held = false;
    snprintf(db->error, sizeof db->error, "%zu writes wait for an answer of %.100s, one for %lld s",
             wait.count, db->server_place, (long long)(wait.ms / 1000));
    fault_note(&db->fault, "write", db->error);
    return false;
}

enum db_result db_query(struct db *db, const char *text, size_t length)
{
    /* Amid a transaction nothing may reconnect: its rest would run without its beginning. */
    if (!db->in_run)
        db_connect(db);
    if (!db->in_run && db_writes(text, length) && !may_write(db))
        return DB_FAILED;
    return db_execute(db, text, length);
}

void db_set_row_wait(struct db *db, int seconds)
{
    assert(seconds > 0 && !db->mysql);
    db->row_wait_s = seconds;
}

bool db_met_held_row(const struct db *db)
{
    return db->held;
}

bool db_in_doubt(const struct db *db)
{
    return db->in_doubt;
}

uint64_t db_affected(const struct db *db, size_t i)
{
    return i < db->statements ? db->affected[i] : 0;
}

const char *db_error(const struct db *db)
{
    return db->error;
}

struct fault *db_fault(struct db *db)
{
    return &db->fault;
}

const char *db_place(const struct db *db)
{
    return db->place;
}

const char *db_server(const struct db *db)
{
    return db->server_place;
}

size_t db_server_count(const struct db *db)
{
    return db->url.socket[0] != '\0' ? 1 : db->url.server_count;
}

void db_look(struct db *db)
{
    if (db->servers)
        db_servers_look(db->servers, DB_LOOK_EVERY_MS);
}

bool db_split(const struct db *db)
{
    return db->servers && db_servers_split(db->servers);
}

struct db_stats db_stats(const struct db *db)
{
    return db->stats;
}

/* A rollback that fails closes the connection, by which the server rolls back as well. */
static void rollback(struct db *db)
{
    db_drop_rows(db);
    if (db->mysql && mysql_real_query(db->mysql, "ROLLBACK", 8) != 0)
        db_disconnect(db);
}

/* Random, so that two transactions that met once do not meet again. */
static void pause_randomly(struct db *db)
{
    clock_sleep_ns(200000 + rand_r(&db->random) % 2000000);
}

/* True when the transaction is to be tried again. */
static bool again(struct db *db, struct db_run *run)
{
    /* The connection was lost before the commit was sent, so nothing was done. The server may have
     * been ending an idle one just then: try once more on a new one. */
    bool lost = run->result == DB_FAILED && db->in_doubt && !run->lost;
    bool soft = run->result == DB_SOFT && !db->held;
    run->lost |= lost;
    if ((lost || soft) && run->tries < RUN_TRIES_MAX) {
        db->stats.retries++;
        pause_randomly(db);
        return true;
    }
    if (run->result == DB_SOFT) { /* every try met others, or the last waited */
        fault_note(&db->fault, db->soft, db->error);
        run->result = DB_FAILED;
    }
    return false;
}

static void end_run(struct db *db, struct db_run *run)
{
    assert(db->in_run);
    if (run->result == DB_OK) /* a connection lost before the COMMIT has committed nothing */
        run->result = db->mysql ? db_commit(db) : DB_FAILED;
    if (run->result != DB_OK && run->result != DB_UNKNOWN) /* commit has disconnected if unknown */
        rollback(db);
    db->in_run = db->begin = false;
}

/* The transaction begins with its first query, in one packet. `in_run` keeps a connection that
 * breaks on the way from being replaced unnoticed. */
bool db_run(struct db *db, struct db_run *run)
{
    if (run->tries == 0)
        db->held = false;
    else
        end_run(db, run);
    if (run->tries > 0 && !again(db, run))
        return false;
    run->tries++;
    run->result = db_connect(db);
    if (run->result == DB_OK && !may_write(db))
        run->result = DB_FAILED;
    db->in_run = db->begin = run->result == DB_OK;
    return db->in_run;
}
