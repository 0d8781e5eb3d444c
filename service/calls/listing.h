/* What a listing of orders is asked for: the parameters behind the question mark. */
#ifndef SECKILL_SERVICE_LISTING_H
#define SECKILL_SERVICE_LISTING_H

#include "service/workers/calls.h"
#include "service/calls/call.h"

/* How many of the parameters sku, status, after and limit a call takes. */
enum listing_kind { LISTING_WHOLE = 2, LISTING_PAGE = 4 };

enum { LISTING_LIMIT = 100, LISTING_LIMIT_MAX = 1000 };

/* Fills in the request's filter, after and limit; else answers what is wrong, and is false. */
bool listing_read(struct request *request, const struct call *call, enum listing_kind kind);

/* ledger_orders_scan or ledger_user_orders. */
typedef enum ledger_result listing_source(struct ledger *ledger, const struct ledger_filter *filter,
                                          uint64_t after, size_t max,
                                          struct ledger_listed *orders_out, size_t *count_out,
                                          uint64_t *next_out);

/* Reads the request's next page, of at most request->limit orders; request->after is then where the
 * one after it begins, 0 when there is none. False: the ledger failed. For a desk. */
bool listing_fetch(struct desk *desk, struct request *request, listing_source *source,
                   struct ledger_listed *orders_out, size_t *count_out);

#endif
