/* GET /user/{user_id}/orders and GET /admin/orders: who bought, page by page. */
#ifndef SECKILL_SERVICE_CALLS_LIST_H
#define SECKILL_SERVICE_CALLS_LIST_H

#include "service/calls/call.h"

/* The handlers, see call_handler. */
enum call_start call_list_user(struct service *service, struct request *request,
                               const struct call *call);
enum call_start call_list_all(struct service *service, struct request *request,
                              const struct call *call);

#endif
