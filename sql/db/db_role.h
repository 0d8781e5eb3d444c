/* Private to sql/: what a server of a list says of its part, and which one of the list to write to.
 *
 * why_one: the ledger's promises rest on rows that wait for each other, which they do on one server
 * alone. So of several servers with the same data exactly one may take writes: the primary, or a
 * node of a Galera cluster. */
#ifndef SQL_DB_ROLE_H
#define SQL_DB_ROLE_H

#include "sql/db/db.h"

enum { DB_ROLE_NAME_SIZE = 96, DB_ROLE_WHY_SIZE = 128 };

struct db_role {
    bool answers;
    bool writable;
    bool
        lags; /* of a Galera node: it is behind the others for a while, as one that feeds another */
    char server[DB_ROLE_NAME_SIZE];  /* its name, port and number: two places may lead to one */
    char cluster[DB_ROLE_NAME_SIZE]; /* of a Galera node: the cluster and who is in it now; or "" */
    char why[DB_ROLE_WHY_SIZE];      /* why it takes no writes */
};

/* Asks the server that the db is connected to, or connects to. Any account may ask. DB_OK, also
 * when it takes no writes; else what db_query returned, and the role says why. */
enum db_result db_role_ask(struct db *db, struct db_role *role_out);

/* Which of the servers to write to: the only writable one, or of the nodes of one Galera cluster
 * the first that does not lag, or the first if all do. -1: none is, or several are that do not
 * belong together, which `split_out` tells. */
int db_role_choose(const struct db_role *roles, size_t count, bool *split_out);

/* True when all that take writes are nodes of one Galera cluster: where they are split, they differ
 * in who is in it now. So they do for some ms of each change, and two halves do for good. */
bool db_role_one_cluster(const struct db_role *roles, size_t count);

#endif
