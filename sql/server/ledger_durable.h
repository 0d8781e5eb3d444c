/* Whether a committed order outlives its server: what a daemon asks of the ledger at its start and
 * again in the background. */
#ifndef SQL_LEDGER_DURABLE_H
#define SQL_LEDGER_DURABLE_H

#include "sql/ledger.h"

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

#endif
