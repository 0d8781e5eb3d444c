/* Orders that are paid or cancelled; the units of cancelled ones can be sold again at once. */
#ifndef STOCK_RETURNS_STATUS_H
#define STOCK_RETURNS_STATUS_H

#include "stock/returns/status_change.h"

/* Pay or cancel orders, of whatever sales and an order perhaps more than once, blocking for as long
 * as Redis and the ledger take. They try for up to `wait_ms`, at least once, until one of the
 * orders is decided, and return the others as BUSY: an order whose segments, or whose row, somebody
 * else has locked does not keep the others waiting. OK and REFUSED: what the record says is on the
 * disk, unless it may still change. A repeat is harmless. */
void stock_pay(struct stock *stock, struct stock_status_change *changes, size_t count, int wait_ms);
void stock_cancel(struct stock *stock, struct stock_status_change *changes, size_t count,
                  int wait_ms);

#endif
