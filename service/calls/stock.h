/* GET /stock/{sku}: what is sold and what is left, and the settings, by the ledger. */
#ifndef SECKILL_SERVICE_CALLS_STOCK_H
#define SECKILL_SERVICE_CALLS_STOCK_H

#include "service/calls/call.h"

call_handler call_stock_get;

#endif
