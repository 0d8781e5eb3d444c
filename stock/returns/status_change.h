/* One order of many whose status is to change: what is asked, and what became of it. */
#ifndef STOCK_RETURNS_STATUS_CHANGE_H
#define STOCK_RETURNS_STATUS_CHANGE_H

#include <stdbool.h>

#include "sql/orders/ledger_record.h"
#include "stock/types.h"

enum { STOCK_CHANGES_MAX = LEDGER_ORDERS_MAX }; /* orders of one call */

/* One order whose status is to change. */
struct stock_status_change {
    /* In: order_id. Out with OK and REFUSED: the order as it is now. */
    struct ledger_record record;
    enum stock_state_result result;
    bool moved; /* out: this call has changed the order's status */
    bool doubt; /* for stock/ alone: a try of this call may have changed it */
};

#endif
