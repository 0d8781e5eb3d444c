/* Private to sql/: the servers of one ledger, as all clients of this process know them, and which
 * one to write to.
 *
 * why_one: the ledger's promises rest on rows that wait for each other, which they do on one server
 * alone. So of several servers with the same data exactly one may take writes: the primary, or a
 * node of a Galera cluster.
 *
 * why_shared: when a primary dies, dozens of connections find it out together. One look at all
 * servers answers for all of them, and when the primary changes, the connections to the former one
 * end, also those that no error has met.
 *
 * A look asks all servers side by side and takes as long as the slowest: DB_LOOK_MS for the
 * connect, with the look-up of a name, and the same for each of two answers. One look runs at a
 * time, and two are DB_LOOK_PAUSE_MS apart. */
#ifndef SQL_DB_SERVERS_H
#define SQL_DB_SERVERS_H

#include "base/url.h"
#include "sql/db/db_connection.h"

/* A variable or a status of a server. */
struct db_value {
    const char *name, *other; /* a server may know another name for it, which `name` then is */
    char text[64];            /* "" when it knows neither */
};

/* Asks a SHOW VARIABLES or SHOW STATUS on the present connection, and fills in the values that it
 * tells. Results as db_query; DB_FAILED without a connection. */
enum db_result db_values_ask(struct db *db, const char *question, struct db_value *values,
                             size_t count);

bool db_value_is(const struct db_value *value, const char *text);

enum { DB_ROLE_WHY_SIZE = 128 };

struct db_role {
    bool answers;
    bool writable;
    bool lags; /* of a Galera node: behind the others for a while, as one that feeds another */
    char server[DB_ROLE_NAME_SIZE];  /* its name, port and number: two places may lead to one */
    char cluster[DB_ROLE_NAME_SIZE]; /* of a Galera node: the cluster and who is in it now; or "" */
    char why[DB_ROLE_WHY_SIZE];      /* why it takes no writes */
};

/* Asks the server that the db is connected to. Any account may ask. DB_OK, also when it takes no
 * writes; else what db_query returned, and the role says why. */
enum db_result db_role_ask(struct db *db, struct db_role *role_out);

/* Which of the servers to write to: the only writable one, or of the nodes of one Galera cluster
 * the first that does not lag, or the first if all do. -1: none is, or several are that do not
 * belong together, which `split_out` tells. */
int db_role_choose(const struct db_role *roles, size_t count, bool *split_out);

/* True when all that take writes are nodes of one Galera cluster: where they are split, they differ
 * in who is in it now. So they do for some ms of each change, and two halves do for good. */
bool db_role_one_cluster(const struct db_role *roles, size_t count);

/* ---- all servers ---- */

enum { DB_LOOK_MS = 1000, DB_LOOK_PAUSE_MS = 100, DB_SERVERS_WHY_SIZE = 240 };

struct db_servers;

/* The servers of a URL that names several; the same for all that ask by the same text. Any thread;
 * each caller drops it. */
struct db_servers *db_servers_get(const char *url);

/* The last caller's waits for a look that is under way. Sets the pointer to NULL; NULL is fine. */
void db_servers_drop(struct db_servers **servers);

/* The server to write to, by its place in the URL, as the last look has found it; -1: none, or it
 * did not answer. Its number changes with each change of it. Any thread, without waiting. */
int db_servers_present(struct db_servers *servers, uint64_t *number_out);

/* Begins a look unless one is under way or the last one ended less than `pause_ms` ago. Any thread,
 * without waiting. */
void db_servers_look(struct db_servers *servers, int pause_ms);

/* Begins a look as db_servers_look does, DB_LOOK_PAUSE_MS after the last, and waits up to `wait_ms`
 * for its end; `code_out` is 0 when the last look that ended has found a server to write to, and
 * else `why_out` says why it has not. False: the look is not over. */
bool db_servers_find(struct db_servers *servers, int wait_ms, unsigned *code_out,
                     char why_out[DB_SERVERS_WHY_SIZE]);

/* True while several servers take writes that do not belong together. Any thread. */
bool db_servers_split(struct db_servers *servers);

#endif
