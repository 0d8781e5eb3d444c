/* Reserved orders whose time to pay is over. */
#ifndef STOCK_RETURNS_EXPIRED_H
#define STOCK_RETURNS_EXPIRED_H

#include <stddef.h>

#include "sql/orders/ledger_due.h"
#include "sql/orders/ledger_status.h"
#include "stock/types.h"

struct stock_expired {
    size_t count;   /* of orders */
    size_t awaited; /* of these, orders whose units buyers may wait for */
};

/* Expires reserved orders whose time is over: some hundreds after `cursor`, which moves on
 * and says whether there are more; then call again at once. Orders are left out while somebody else
 * keeps their rows, or all of their sale's segments; they come again once the cursor starts over,
 * all zero. LEDGER_OK or LEDGER_FAILED. Safe to run in several processes, but pointless. */
enum ledger_result stock_expire(struct stock *stock, struct ledger_due_cursor *cursor,
                                struct stock_expired *expired_out);

#endif
