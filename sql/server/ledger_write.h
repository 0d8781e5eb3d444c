/* Whether the ledger's server takes writes now. */
#ifndef SQL_LEDGER_WRITE_H
#define SQL_LEDGER_WRITE_H

#include "sql/ledger.h"

enum ledger_write {
    LEDGER_WRITE_OK,
    LEDGER_WRITE_READ_ONLY, /* the server answers and refuses every write of this user */
    LEDGER_WRITE_NO_TABLES, /* the server answers and has no table to try it on yet */
    LEDGER_WRITE_FAILED,    /* no answer, or another error: ledger_error says which */
};

/* Tries a write that changes nothing, connecting if need be: one round trip, no fsync, no line in
 * the binary log. */
enum ledger_write ledger_try_write(struct ledger *ledger);

#endif
