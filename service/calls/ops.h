/* /healthz, /servingz, /readyz, /metrics and /openapi.json: for the operators of the service. */
#ifndef SECKILL_SERVICE_CALLS_OPS_H
#define SECKILL_SERVICE_CALLS_OPS_H

#include "service/calls/call.h"

/* The handlers, see call_handler. */
enum call_start call_ops_healthz(struct service *service, struct request *request,
                                 const struct call *call);
enum call_start call_ops_servingz(struct service *service, struct request *request,
                                  const struct call *call);
enum call_start call_ops_readyz(struct service *service, struct request *request,
                                const struct call *call);
enum call_start call_ops_metrics(struct service *service, struct request *request,
                                 const struct call *call);
enum call_start call_ops_openapi(struct service *service, struct request *request,
                                 const struct call *call);

#endif
