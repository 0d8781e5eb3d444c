/* The operator's calls that steer this daemon: /admin/log-level and /admin/drain. */
#ifndef SECKILL_SERVICE_CALLS_PROCESS_H
#define SECKILL_SERVICE_CALLS_PROCESS_H

#include "service/calls/call.h"

/* GET and PUT /admin/log-level. */
call_handler call_process_level_get;
call_handler call_process_level_put;

/* GET, POST and DELETE /admin/drain. */
call_handler call_process_drain_get;
call_handler call_process_drain;
call_handler call_process_drain_undo;

#endif
