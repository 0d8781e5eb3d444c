/* GET /order/{order_id}. */
#ifndef SECKILL_SERVICE_CALLS_ORDER_GET_H
#define SECKILL_SERVICE_CALLS_ORDER_GET_H

#include "service/calls/call.h"

/* The handler, see call_handler. */
enum call_start call_order_get(struct service *service, struct request *request,
                               const struct call *call);

#endif
