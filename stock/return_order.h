/* An order that is paid or cancelled; the units of a cancelled one can be sold again at once. */
#ifndef STOCK_RETURN_ORDER_H
#define STOCK_RETURN_ORDER_H

#include <stdbool.h>

#include "sql/ledger_lookup.h"
#include "sql/ledger_status.h"
#include "stock/types.h"

/* Pays or cancels an order, blocking for as long as Redis and the ledger take. With OK and REFUSED
 * `record_out` is the order as it is now. `moved_out` tells that this call has changed its status.
 * A cancel tries for `wait_ms` to lock the order's segments, at least once. A repeat is
 * harmless. */
enum stock_state_result stock_pay(struct stock *stock, uint64_t order_id,
                                  struct ledger_record *record_out, bool *moved_out);
enum stock_state_result stock_cancel(struct stock *stock, uint64_t order_id, int wait_ms,
                                     struct ledger_record *record_out, bool *moved_out);

#endif
