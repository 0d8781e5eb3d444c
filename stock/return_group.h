/* Orders of many sales that end at the same time, sorted into batches; for stock/ alone. */
#ifndef STOCK_RETURN_GROUP_H
#define STOCK_RETURN_GROUP_H

#include "sql/ledger_status.h"
#include "stock/status_change.h"

/* Tries once to end orders whose records have just been read and may become `to`: a transaction for
 * each sale, round and few of its segments, under their locks. Sorts `changes`. A change's result
 * is OK when this call has ended the order; its record then says so. BUSY: it was not its turn, or
 * one of its segments was locked, or it has changed meanwhile. FAILED and IN_DOUBT as ever. True
 * when something was committed. */
bool return_group(struct stock *stock, struct stock_status_change **changes, size_t count,
                  enum ledger_status to);

#endif
