/* A connection to the simulated ledger: statements that travel, transactions, and all that may go
 * wrong with them. This is sql/db/db.h as the functions of the ledger use it. */
#ifndef SIMULATE_LEDGER_SESSION_H
#define SIMULATE_LEDGER_SESSION_H

#include "base/fault.h"
#include "sql/db/db.h"
#include "sql/ledger/ledger.h"
#include "test/simulate/ledger/ledger_table.h"

struct ledger {
    struct task *task; /* that uses it */
    bool connected, in_run, in_doubt;
    bool events;        /* set by ledger_events_write */
    bool hurried, held; /* it must not wait for rows; the last call has met a held one */
    uint32_t epoch;     /* of the server's run in which it connected */
    uint64_t connects;
    int timeout_ms;
    int64_t retry_at_ns;
    int64_t delay_ns; /* of the next try to connect after a failed one */
    struct txn *txn;  /* NULL: none is open */
    struct fault fault;
};

void ledger_server_begin(void);

/* The server's clock, in ms since 1970, and as it is now. */
int64_t ledger_server_ms(void);
void ledger_server_set(int64_t now_ms);

/* Sends a statement. DB_OK: it has arrived, and is to be carried out; then session_answer gives the
 * result that it has. DB_FAILED: the connection is lost. `writes`: a server that refuses writes
 * refuses it. */
enum db_result session_send(struct ledger *ledger, bool writes);
enum db_result session_answer(struct ledger *ledger, enum db_result result);

/* Locks a row within a statement, waiting for its owner. DB_SOFT: deadlock or waited too long.
 * DB_FAILED: the client gave up. */
enum db_result session_lock(struct ledger *ledger, struct row *row);

/* The same for the row with that key, made where there is none, for the statement to insert or to
 * change. */
enum db_result session_lock_key(struct ledger *ledger, enum table table, const struct row_key *key,
                                struct row **row_out);

/* A transaction, as db_run makes it. */
enum db_result session_run(struct ledger *ledger, enum db_result (*body)(struct ledger *, void *),
                           void *context);

/* Runs a statement by itself, and once more on a new connection if that was lost, as ledger_read. A
 * statement that writes commits for itself. */
enum ledger_result session_read(struct ledger *ledger,
                                enum db_result (*statement)(struct ledger *, void *), void *context,
                                bool writes);

/* What the last commit has written is on the disk before the statement is answered. */
enum db_result session_sync(struct ledger *ledger);

/* The statement that makes the present transaction's commit reach the disk. */
enum db_result session_confirm(struct ledger *ledger);

enum ledger_result session_result(enum db_result result);

#endif
