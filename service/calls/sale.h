/* The admin's calls: /admin/stock/reset, /admin/stock/add, /admin/sales, /admin/sale/{sku} and
 * /admin/reconcile. */
#ifndef SECKILL_SERVICE_CALLS_SALE_H
#define SECKILL_SERVICE_CALLS_SALE_H

#include "service/calls/call.h"

call_handler call_sale_reset;
call_handler call_sale_restock;
call_handler call_sale_list;
call_handler call_sale_change;
call_handler call_sale_reconcile;

#endif
