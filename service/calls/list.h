/* GET /user/{user_id}/orders, GET /admin/orders and GET /admin/orders.csv: who bought, page by
 * page. */
#ifndef SECKILL_SERVICE_CALLS_LIST_H
#define SECKILL_SERVICE_CALLS_LIST_H

#include "service/calls/call.h"

call_handler call_list_user;
call_handler call_list_all;
call_handler call_list_csv;

#endif
