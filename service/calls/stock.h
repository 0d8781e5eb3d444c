/* GET /stock/{sku}: what is sold and what is left, and the settings, by the ledger. */
#ifndef SECKILL_SERVICE_CALLS_STOCK_H
#define SECKILL_SERVICE_CALLS_STOCK_H

#include "service/calls/call.h"

/* The handlers, see call_handler. */
enum call_start call_stock_get(struct service *service, struct request *request,
                               const struct call *call);

#endif
