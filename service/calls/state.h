/* POST /order/{order_id}/pay and /cancel. */
#ifndef SECKILL_SERVICE_CALLS_STATE_H
#define SECKILL_SERVICE_CALLS_STATE_H

#include "service/calls/call.h"

call_handler call_state_pay;
call_handler call_state_cancel;

#endif
