/* Orders that were not paid in time. */
#ifndef SQL_LEDGER_DUE_H
#define SQL_LEDGER_DUE_H

#include "sql/ledger.h"
#include "sql/ledger_time.h"

/* An order that is to expire. */
struct ledger_due {
    uint64_t order_id;
    char sku[IDENTIFIER_SIZE];
    uint32_t round;
    uint32_t segment; /* the first one that its units were taken from */
    uint32_t qty;
};

/* How far ledger_due_list has read; all zero: it begins. */
struct ledger_due_cursor {
    bool more; /* there may be more due orders after this one */
    char expires_at[LEDGER_TIME_SIZE];
    uint64_t first_id;
};

/* Lists reserved orders whose time is over by the ledger's clock, at most `max`, and moves
 * `cursor` on. A call may find none although `cursor->more` says to go on. Earlier calls give
 * the orders that expire earlier; within a call they are sorted by id. Orders whose rows make no
 * sense are left out, and noted in ledger_fault. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_due_list(struct ledger *ledger, struct ledger_due_cursor *cursor,
                                   size_t max, struct ledger_due *due_out, size_t *count_out);

#endif
