/* GET /stock/{sku} and GET /admin/stock/{sku}: what is sold and what is left, and the settings. */
#ifndef SECKILL_SERVICE_CALLS_STOCK_H
#define SECKILL_SERVICE_CALLS_STOCK_H

#include "service/calls/call.h"

/* The handlers, see call_handler. The first answers from a snapshot that is at most 100 ms old, the
 * second asks the ledger each time. */
enum call_start call_stock_get(struct service *service, struct request *request,
                               const struct call *call);
enum call_start call_stock_get_exact(struct service *service, struct request *request,
                                     const struct call *call);

#endif
