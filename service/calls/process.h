/* The operator's calls that steer this daemon: /admin/log-level and /admin/drain. */
#ifndef SECKILL_SERVICE_CALLS_PROCESS_H
#define SECKILL_SERVICE_CALLS_PROCESS_H

#include "service/calls/call.h"

/* GET and PUT /admin/log-level. */
enum call_start call_process_level_get(struct service *service, struct request *request,
                                       const struct call *call);
enum call_start call_process_level_put(struct service *service, struct request *request,
                                       const struct call *call);

/* GET, POST and DELETE /admin/drain. */
enum call_start call_process_drain_get(struct service *service, struct request *request,
                                       const struct call *call);
enum call_start call_process_drain(struct service *service, struct request *request,
                                   const struct call *call);
enum call_start call_process_drain_undo(struct service *service, struct request *request,
                                        const struct call *call);

#endif
