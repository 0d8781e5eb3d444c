/* Sales with their segments, of several skus, as one consistent picture. */
#ifndef SQL_LEDGER_STOCK_H
#define SQL_LEDGER_STOCK_H

#include "sql/sales/ledger_sale.h"
#include "sql/ledger_segment.h"

/* One query holds up to 65,536 rows (5 MB) in memory, should all sales have LEDGER_SEGMENTS_MAX. */
enum { LEDGER_STOCK_SKUS_MAX = 64 };

/* Called with a sale, with what it has sold, and with its segments in order, of the same round.
 * Must not use the ledger. */
typedef void ledger_stock_visit(const struct ledger_sale *sale,
                                const struct ledger_segment *segments, size_t count, void *context);

/* Reads the sales of `count` <= LEDGER_STOCK_SKUS_MAX different skus and their segments by one
 * statement, so that all of it belongs to one moment. Calls `visit` with each sale that exists; an
 * unknown sku is left out. LEDGER_OK; LEDGER_FAILED without any call; LEDGER_DAMAGED: a sale was
 * left out, as its rows make no sense. */
enum ledger_result ledger_stock_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     ledger_stock_visit *visit, void *context);

/* As ledger_stock_find, of one sku, for an audit, which tells where rows contradict each other:
 * segments that are missing or have sold more than their capacity leave no sale out. */
enum ledger_result ledger_stock_find_as_it_is(struct ledger *ledger, const char *sku,
                                              ledger_stock_visit *visit, void *context);

#endif
