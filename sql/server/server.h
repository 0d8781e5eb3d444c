/* What a daemon needs of the ledger's server: tables, accounts, a pod, a node number, checks. */
#ifndef SQL_SERVER_H
#define SQL_SERVER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sql/ledger/ledger.h"

/* ---- tables ---- */

/* Which of the numbered files the database has not seen. */
struct ledger_schema {
    unsigned files, missing;
    const char *first; /* of the missing ones; NULL: none is */
};

/* Asks whether the tables are as this version wants them, and changes nothing. LEDGER_OK; LEDGER_NO
 * when files are missing; LEDGER_FAILED: not known. */
enum ledger_result ledger_schema_ask(struct ledger *ledger, struct ledger_schema *schema_out);

/* What is being done, for ledger_migrate. */
struct ledger_migration {
    const char *name;   /* of the numbered file; NULL: another daemon is waited for */
    int64_t waited_ms;  /* for the statement that runs now, or for the other daemon */
    const char *holder; /* who probably has the table open that it waits for; NULL: it does not */
};

/* Creates or upgrades the tables, one daemon at a time under a server-side lock, for which it waits
 * up to 60 s. Harmless when the tables are there, and then it needs no right to change any.
 * Questions wait as long as the ledger's time-out says; a statement that changes tables may take an
 * hour, as large ones are copied. It waits only for a moment at a time for a table that somebody
 * has open, so that others get on. LEDGER_OK or LEDGER_FAILED; then what was done stays done, and a
 * repeat goes on.
 *
 * It ends when `go_on`, which is asked every 100 ms or second, returns false: a process that is
 * told to end need not wait for the statement, which the server finishes all the same. NULL: it
 * goes on. */
enum ledger_result ledger_migrate(struct ledger *ledger,
                                  bool (*go_on)(const struct ledger_migration *now, void *context),
                                  void *context);

/* ---- accounts ---- */

/* Prints statements for an administrator of the server: one account that serves, the user of `url`,
 * and one that changes tables, its name with _migrate behind. Creating them, with their passwords,
 * stands in comments; no password is printed. For MariaDB and MySQL 8. Connects nowhere. False,
 * having printed nothing, when `url` names no user or has an account's name that is too long. */
bool ledger_grants_print(FILE *out, const char *url);

/* ---- the pod ---- */

/* Compares the number that the ledger has with the one that the caller takes it for; a ledger that
 * has none is given it, unless it has sales: then it is pod 0. LEDGER_OK: it has this number.
 * LEDGER_NO: `found_out` is its number. LEDGER_FAILED: not known. */
enum ledger_result ledger_pod_claim(struct ledger *ledger, unsigned number, unsigned *found_out);

/* ---- node numbers ---- */

/* why_a_bound: time alone does not keep two holders of a number apart, because a holder may sleep
 * between its look at the clock and the id that it makes, and clocks step. So each lease names the
 * time, as ids carry it, that its ids stay before; the next holder of the number begins there. */

enum { LEDGER_NODES = 1024 }; /* numbers there are, from 0 */

struct ledger_node {
    int number;           /* -1: any, before it is taken */
    const char *holder;   /* the caller's own name: an identifier, unique to this process */
    int lease_ms;         /* from the server's answer on */
    uint64_t next_ms;     /* the time that the caller's next id carries at least, ms since 1970 */
    uint64_t last_ms;     /* the greatest time that an id can carry */
    uint64_t ids_from_ms; /* set by ledger_node_take: ids carry no earlier time, */
    uint64_t ids_to_ms;   /* set by both: and only earlier times than this */
};

/* Takes the number for its holder; any: the one that has been free for longest. A holder that has
 * one already, as after a lost answer, keeps it. LEDGER_OK; LEDGER_NO: all are leased, or the one
 * wanted is, and `other_out` and `until_out` name its holder and its end ("" for any).
 * LEDGER_DAMAGED: ids of the one wanted carried times up to last_ms, so it has none left; any: such
 * numbers are passed over. LEDGER_FAILED or LEDGER_UNKNOWN: ask again. */
enum ledger_result ledger_node_take(struct ledger *ledger, struct ledger_node *node,
                                    char other_out[IDENTIFIER_SIZE],
                                    char until_out[LEDGER_TIME_SIZE]);

/* Prolongs the lease, also one that has ended, as long as nobody else took the number. LEDGER_NO:
 * somebody did. LEDGER_FAILED or LEDGER_UNKNOWN: the lease may be prolonged or not. */
enum ledger_result ledger_node_renew(struct ledger *ledger, struct ledger_node *node);

/* Gives the number back, when no id before next_ms will be made any more. LEDGER_OK also when
 * somebody else has it. LEDGER_FAILED or LEDGER_UNKNOWN: the number may be free only when the lease
 * ends. */
enum ledger_result ledger_node_release(struct ledger *ledger, const struct ledger_node *node);

/* ---- what the server does ---- */

enum { LEDGER_UNFIT_SIZE = 160 };

/* Tries on the tables themselves, in a transaction that is rolled back, that a CHECK refuses what
 * it forbids and that changed rows are counted as the guards count them. Needs the tables and the
 * right to serve. LEDGER_OK; LEDGER_NO with what is wrong in `why_out`: then an order could be
 * accepted that must not be. LEDGER_FAILED: not known.
 *
 * why_at_each_start: servers that speak MySQL's protocol have parsed CHECK and ignored it for
 * years, and a restore or a hand can drop a constraint. */
enum ledger_result ledger_fit(struct ledger *ledger, char why_out[LEDGER_UNFIT_SIZE]);

/* ---- what the server keeps ---- */

/* A semi-synchronous primary that waits no longer than this for its replica, 1 day, goes on without
 * it before anybody can have looked. Then orders are accepted that the replica does not have. */
#define LEDGER_SEMI_SYNC_MS_MIN (24LL * 3600 * 1000)

/* What makes the ledger forget. */
struct ledger_weakness {
    char setting[80];   /* "rpl_semi_sync_master_timeout=10000" */
    const char *effect; /* when orders may be lost */
    const char *advice; /* what to do */
};

/* Asks whether the server answers a commit only when it is on its disk and in the log that replicas
 * read; and of a ledger with several servers, when one more of them has it. LEDGER_NO: not so, and
 * `weakness_out` says why. LEDGER_FAILED: the server cannot be asked.
 *
 * why_these_settings, of a primary with semi-synchronous replicas:
 *   AFTER_SYNC      nobody sees a commit that the replica does not have; so nobody is told of an
 *                   order that a failover forgets
 *   timeout         when it is over the primary answers alone, and says nothing
 *   wait_no_slave   with it off the primary answers alone as soon as its replica is gone
 *   status, clients whether it waits at this moment, and for whom
 * After a failover from two servers the new primary has no replica: without them the ledger sells
 * on, and this says so; with them its commits wait until there is one.
 *
 * A Galera node has more than one server by itself; whether it keeps what it has committed is for
 * its innodb_flush_log_at_trx_commit and for Galera to say (docs/guarantees.md). */
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

/* ---- time ---- */

/* Asks the ledger's server for its time: us since 1970 (UTC), at some moment between the call and
 * its return. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_clock_ask(struct ledger *ledger, int64_t *us_out);

#endif
