/* The pages for browsers, whose files are part of the program. */
#ifndef SECKILL_SERVICE_CALLS_WEB_H
#define SECKILL_SERVICE_CALLS_WEB_H

#include "service/calls/call.h"

/* The file that the table in web.c has for the path of the call: 304 to whoever has it already, 404
 * where there is none. */
enum call_start call_web_file(struct service *service, struct request *request,
                              const struct call *call);

/* The same for the files of the demo, which there are with the option demo only. */
enum call_start call_web_demo(struct service *service, struct request *request,
                              const struct call *call);

#endif
