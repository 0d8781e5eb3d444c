/* Private to sql/: writes that a server has not answered in time.
 *
 * why_kept: a primary that is cut off from its replicas answers no commit, and keeps the session of
 * each, also when its client has left. A client that connected anew for each further write would
 * leave one behind with each, until the server has none for its replicas. So such a connection
 * stays open here: its answer, or mostly its end, tells whoever asks that the session has ended. */
#ifndef SQL_DB_WAITS_H
#define SQL_DB_WAITS_H

#include <mysql.h>

#include "sql/db/db.h"

/* Takes a connection over whose last write began `waited_ms` ago; `server` is the server's own
 * name. Any thread. */
void db_waits_add(MYSQL *mysql, const char *server, int waited_ms);

/* Sums the server's waits up. Any thread. */
struct db_wait db_waits_ask(const char *server);

#endif
