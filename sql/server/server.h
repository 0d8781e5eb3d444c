/* The ledger's server, for a daemon: tables, accounts, a pod, a node number, checks. */
#ifndef SQL_SERVER_H
#define SQL_SERVER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sql/ledger/ledger.h"

/* ---- tables ---- */

/* The numbered files that the database has not seen. */
struct ledger_schema {
    unsigned files, missing;
    const char *first; /* the first missing one; NULL: no file is missing */
};

/* Checks whether the tables are as this version wants them; changes nothing. LEDGER_OK; LEDGER_NO:
 * files are missing; LEDGER_FAILED: not known. */
enum ledger_result ledger_schema_ask(struct ledger *ledger, struct ledger_schema *schema_out);

/* The progress of ledger_migrate. */
struct ledger_migration {
    const char *name;   /* of the numbered file; NULL: it waits for another daemon */
    int64_t waited_ms;  /* for the running statement, or for the other daemon */
    const char *holder; /* who probably has the awaited table open; NULL: no table is awaited */
};

/* Creates or upgrades the tables, one daemon at a time: waits up to 60 s for a server-side lock.
 * Harmless when the tables exist; then it needs no right to change any. The ledger's time-out
 * bounds each question; a statement that changes a table may take an hour, because large ones are
 * copied. It waits only for a moment at a time for a table that somebody has open, so that others
 * get on. LEDGER_OK or LEDGER_FAILED; then what was done stays done, and a repeat goes on.
 *
 * It ends when `go_on`, asked every 100 ms, or every second while it waits for the lock, returns
 * false; the server finishes the running statement all the same. NULL: it goes on. */
enum ledger_result ledger_migrate(struct ledger *ledger,
                                  bool (*go_on)(const struct ledger_migration *now, void *context),
                                  void *context);

/* ---- accounts ---- */

/* Prints statements for an administrator of the server, MariaDB or MySQL 8: rights for the user of
 * `url`, who serves, and for its name with _migrate appended, who changes tables. Comments show how
 * to create both accounts; no password is printed. Does not connect. False, having printed nothing,
 * when `url` names no user or too long a name. */
bool ledger_grants_print(FILE *out, const char *url);

/* ---- the pod ---- */

/* Compares the ledger's pod number with the caller's. A ledger without one gets it, unless it has
 * sales: then it is pod 0. LEDGER_OK: same number. LEDGER_NO: `found_out` is the ledger's.
 * LEDGER_FAILED: not known. */
enum ledger_result ledger_pod_claim(struct ledger *ledger, unsigned number, unsigned *found_out);

/* ---- node numbers ---- */

/* why_a_bound: time alone does not keep two holders of a number apart: a holder may sleep between
 * reading the clock and making the id, and clocks step. So each lease bounds the time that its ids
 * carry, and the next holder of the number begins at that bound. */

enum { LEDGER_NODES = 1024 }; /* numbers there are, from 0 */

struct ledger_node {
    int number;           /* -1: any, before it is taken */
    const char *holder;   /* the caller's own name: an identifier, unique to this process */
    int lease_ms;         /* from the server's answer on */
    uint64_t next_ms;     /* least time that the caller's next id carries, ms since 1970 */
    uint64_t last_ms;     /* the greatest time that an id can carry */
    uint64_t ids_from_ms; /* set by ledger_node_take: the first time that ids may carry */
    uint64_t ids_to_ms;   /* set by both: ids carry only earlier times */
};

/* Leases the number to its holder; with -1, the number that has been free for longest. A holder
 * that has one already, as after a lost answer, keeps it. LEDGER_OK; LEDGER_NO: all are leased, or
 * the one wanted is: then `other_out` and `until_out` name its holder and its end (else "").
 * LEDGER_DAMAGED: ids of the one wanted carried times up to last_ms, so it has none left; with -1
 * such numbers are skipped. LEDGER_FAILED or LEDGER_UNKNOWN: ask again. */
enum ledger_result ledger_node_take(struct ledger *ledger, struct ledger_node *node,
                                    char other_out[IDENTIFIER_SIZE],
                                    char until_out[LEDGER_TIME_SIZE]);

/* Prolongs the lease, even an ended one, unless another holder took the number (LEDGER_NO).
 * LEDGER_FAILED or LEDGER_UNKNOWN: the lease may be prolonged or not. */
enum ledger_result ledger_node_renew(struct ledger *ledger, struct ledger_node *node);

/* Gives the number back; the caller makes no more ids before next_ms. LEDGER_OK also when somebody
 * else has it. LEDGER_FAILED or LEDGER_UNKNOWN: it may stay taken until the lease ends. */
enum ledger_result ledger_node_release(struct ledger *ledger, const struct ledger_node *node);

/* ---- what the server does ---- */

enum { LEDGER_UNFIT_SIZE = 160 };

/* Tests the tables themselves, in a transaction that is rolled back: a CHECK must refuse what it
 * forbids, and changed rows must be counted as the guards count them. Needs the tables and the
 * right to serve. LEDGER_OK; LEDGER_NO with the defect in `why_out`: an order could be accepted
 * that must not be. LEDGER_FAILED: not known.
 *
 * why_at_each_start: servers that speak MySQL's protocol parsed and ignored CHECK for years, and a
 * restore or an operator can drop a constraint. */
enum ledger_result ledger_fit(struct ledger *ledger, char why_out[LEDGER_UNFIT_SIZE]);

/* ---- what the server keeps ---- */

/* 1 day: a semi-synchronous primary with a shorter time-out goes on without its replica before
 * anybody can have looked, and accepts orders that the replica does not have. */
#define LEDGER_SEMI_SYNC_MS_MIN (24LL * 3600 * 1000)

/* A setting that lets the ledger lose orders. */
struct ledger_weakness {
    bool replicated;    /* another server may have the data, too, and take over; always told */
    char setting[80];   /* "rpl_semi_sync_master_timeout=10000" */
    const char *effect; /* when orders may be lost */
    const char *advice; /* what to do */
};

/* Checks that the server answers a commit only when it is on disk and in the log that replicas read
 * and, in a ledger with several servers, when one more of them has it. LEDGER_NO: it does not;
 * `weakness_out` says why. LEDGER_FAILED: the server cannot be asked.
 *
 * why_these_settings, of a primary with semi-synchronous replicas:
 *   AFTER_SYNC      a commit is seen only once the replica has it: no failover loses a seen order
 *   timeout         when it expires the primary answers alone, and says nothing
 *   wait_no_slave   with it off the primary answers alone as soon as its replica is gone
 *   status          whether it waits at this moment
 * After a failover from two servers the new primary has no replica: without these settings the
 * ledger sells on, and this function reports it; with them its commits wait for a replica, and
 * nothing is accepted that could be lost.
 *
 * A Galera node replicates by itself; whether it keeps its commits depends on its
 * innodb_flush_log_at_trx_commit and on Galera (docs/guarantees.md). */
enum ledger_result ledger_durable(struct ledger *ledger, struct ledger_weakness *weakness_out);

/* ---- writes ---- */

enum ledger_write {
    LEDGER_WRITE_OK,
    LEDGER_WRITE_READ_ONLY, /* the server answers and refuses every write of this user */
    LEDGER_WRITE_NO_TABLES, /* the server answers and has no table to try it on yet */
    LEDGER_WRITE_FAILED,    /* no answer, or another error: ledger_error says which */
};

/* Tries a write that changes nothing, connecting if need be: one round trip, no fsync, no line in
 * the binary log. */
enum ledger_write ledger_try_write(struct ledger *ledger);

/* Asks the server why its oldest unanswered write is that: "no answer to a write for 2.5 s: Waiting
 * for semi-sync ACK from slave"; "" without one. */
enum { LEDGER_WAIT_SIZE = 160 };
void ledger_wait_describe(struct ledger *ledger, char why_out[LEDGER_WAIT_SIZE]);

/* ---- time ---- */

/* Asks the ledger's server for its time: us since 1970 (UTC), at some moment between the call and
 * its return. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_clock_ask(struct ledger *ledger, int64_t *us_out);

#endif
