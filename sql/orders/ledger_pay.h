/* Orders paid, many in one transaction. */
#ifndef SQL_LEDGER_PAY_H
#define SQL_LEDGER_PAY_H

#include "sql/orders/ledger_record.h"

/* Pays the orders that the records name by their `order_id`, up to LEDGER_ORDERS_MAX of them, of
 * whatever sales, in one transaction, and fills the records in as they are after it. An order is
 * paid if it is reserved and its time to pay is not over by the ledger's clock; `moved_out`, one
 * for each record, tells which orders this call has paid, for an id that comes more than once at
 * its first place. It waits for nobody: a record that stays `payable` belongs to an order that
 * another transaction is changing; try it again. LEDGER_OK: what the records say is on the disk,
 * unless it may still change. LEDGER_DAMAGED: no order is paid, as the rows of one that would be
 * make no sense (`damaged`); repeat it without that one. LEDGER_UNKNOWN: repeat it. */
enum ledger_result ledger_pay(struct ledger *ledger, struct ledger_record *const *records,
                              size_t count, bool *moved_out);

#endif
