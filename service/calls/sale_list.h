/* GET /admin/sales: all sales, page by page. */
#ifndef SECKILL_SERVICE_CALLS_SALE_LIST_H
#define SECKILL_SERVICE_CALLS_SALE_LIST_H

#include "service/calls/call.h"

/* The handler, see call_handler. */
enum call_start call_sale_list(struct service *service, struct request *request,
                               const struct call *call);

#endif
