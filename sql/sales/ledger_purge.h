/* What only a running round needs, deleted when the round has long been over. */
#ifndef SQL_LEDGER_PURGE_H
#define SQL_LEDGER_PURGE_H

#include "sql/ledger.h"

/* What one call has deleted. */
struct ledger_purged {
    char sku[IDENTIFIER_SIZE]; /* of the round at work */
    uint32_t round;
    uint64_t keys;  /* idempotency keys of orders */
    uint64_t users; /* rows of what users had */
    bool done;      /* nothing more is to be deleted of this round */
};

/* Deletes a piece of what is left of a round that ended more than `days` ago: the keys of its
 * orders, by which their users list them as well, and what its users had. Orders stay. Each piece
 * looks at `rows` rows or so, in short transactions that lock nothing that orders need. Any
 * process, at any time; what a process that died had done is not done again. LEDGER_OK: go on.
 * LEDGER_NO: there is no such round. LEDGER_FAILED, LEDGER_UNKNOWN: going on later is harmless. */
enum ledger_result ledger_purge(struct ledger *ledger, unsigned days, unsigned rows,
                                struct ledger_purged *purged_out);

#endif
