/* /healthz, /readyz, /metrics and /openapi.json: for the operators of the service. */
#ifndef SECKILL_SERVICE_CALLS_OPS_H
#define SECKILL_SERVICE_CALLS_OPS_H

#include "service/calls/call.h"

call_handler call_ops_healthz;
call_handler call_ops_readyz;
call_handler call_ops_metrics;
call_handler call_ops_openapi;

#endif
