/* Leases of node numbers, which make the order ids of daemons differ.
 *
 * why_a_bound: time alone does not keep two holders of a number apart, because a holder may sleep
 * between its look at the clock and the id that it makes, and clocks step. So each lease names the
 * time, as ids carry it, that its ids stay before; the next holder of the number begins there. */
#ifndef SQL_LEDGER_NODE_H
#define SQL_LEDGER_NODE_H

#include "sql/ledger.h"
#include "sql/ledger_time.h"

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

#endif
