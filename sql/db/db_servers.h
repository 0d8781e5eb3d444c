/* Private to sql/: the servers of one ledger, as all clients of this process know them.
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
#include "sql/db/db.h"

enum { DB_LOOK_MS = 1000, DB_LOOK_PAUSE_MS = 100, DB_SERVERS_WHY_SIZE = 240 };

struct db_servers;

/* The servers of a URL that names several; the same for all that ask by the same text. Any thread;
 * each caller drops it. */
struct db_servers *db_servers_get(const char *url);

/* The last caller's waits for a look that is under way. Sets the pointer to NULL; NULL is fine. */
void db_servers_drop(struct db_servers **servers);

/* The server to write to, by its place in the URL, as the last look has found it; -1: none. Its
 * number changes with each change of that server. Any thread, without waiting. */
int db_servers_present(struct db_servers *servers, uint64_t *number_out);

/* Begins a look unless one is under way or the last one ended less than `pause_ms` ago. Any thread,
 * without waiting. */
void db_servers_look(struct db_servers *servers, int pause_ms);

/* The same with DB_LOOK_PAUSE_MS, and waits up to `wait_ms` for its end; `code_out` is 0 when the
 * last look that ended has found a server to write to, and else `why_out` says why it has not.
 * False: the look is not over. */
bool db_servers_find(struct db_servers *servers, int wait_ms, unsigned *code_out,
                     char why_out[DB_SERVERS_WHY_SIZE]);

/* True while several servers take writes that do not belong together. Any thread. */
bool db_servers_split(struct db_servers *servers);

#endif
