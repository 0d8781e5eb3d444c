/* The pages for browsers, whose files are part of the program. */
#ifndef SECKILL_SERVICE_CALLS_WEB_H
#define SECKILL_SERVICE_CALLS_WEB_H

#include "service/calls/call.h"

/* The file that the table in web.c has for the path of the call: 304 to whoever has it already, 404
 * where there is none. */
enum call_start call_web_file(struct service *service, struct request *request,
                              const struct call *call);

#endif
