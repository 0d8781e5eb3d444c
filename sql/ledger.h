/* The ledger: orders and segments as rows of MySQL, as one thread sees them over a connection. */
#ifndef SQL_LEDGER_H
#define SQL_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/identifier.h"
#include "sql/db/db.h"

enum {
    LEDGER_SEGMENTS_MAX = 1024,   /* segments of one sale */
    LEDGER_ORDERS_MAX = 512,      /* orders of one commit */
    LEDGER_TOTAL_MAX = INT32_MAX, /* units of one sale */
};

enum ledger_result {
    LEDGER_OK,
    LEDGER_NO,        /* no such row, or a guard refused the change: nothing is changed */
    LEDGER_DUPLICATE, /* an order with that id, or with that user and key, exists already */
    LEDGER_LIMIT,     /* a user would exceed the limit per user: nothing is changed */
    LEDGER_LATE,      /* the time of an order was over: nothing is changed */
    LEDGER_FAILED,    /* certainly not done */
    LEDGER_UNKNOWN,   /* the server did not answer the commit: ask with ledger_resolve */
    LEDGER_DAMAGED,   /* a row makes no sense, see ledger_fault: nothing is changed */
};

#define LEDGER_ROUND_MAX (UINT32_MAX - 1) /* of a round or settings' version that has a next one */

struct fault;

/* A ledger belongs to one thread at a time. */
struct ledger;

/* Makes a ledger without connecting, as db_open does. The caller closes it. */
struct ledger *ledger_open(const char *url, int timeout_ms, char *error_out, size_t error_size);

void ledger_close(struct ledger **ledger);

/* What failed at the ledger's server since the caller last cleared it; see db_fault. */
struct fault *ledger_fault(struct ledger *ledger);

/* Where the ledger's servers are, for messages; any thread. And where the one is that it writes to,
 * or last wrote to; the ledger's thread. */
const char *ledger_place(const struct ledger *ledger);
const char *ledger_server(const struct ledger *ledger);

/* Notices a change of the server to write to that no error has told of, and that several servers of
 * one ledger take writes (ledger_split). Asks the servers every DB_LOOK_EVERY_MS, however often it
 * is called, and does not wait for their answers. Nothing with one server. */
void ledger_look(struct ledger *ledger);
bool ledger_split(const struct ledger *ledger);

/* The last error in words; empty before the first. */
const char *ledger_error(const struct ledger *ledger);

struct db_stats ledger_stats(const struct ledger *ledger);

/* The number of the present connection: it counts those made, from 1. What was read on an earlier
 * one is no longer certain, as the server may have died in between, and have forgotten what was
 * visible and not on its disk. */
uint64_t ledger_connection(const struct ledger *ledger);

/* Asks the server for an answer, connecting if need be. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_ping(struct ledger *ledger);

#endif
