/* Files committed orders under their users, behind everybody's back. */
#ifndef SECKILL_SERVICE_CLERK_H
#define SECKILL_SERVICE_CLERK_H

#include "service/service.h"

struct clerk;

/* Starts the thread, which begins once the service is prepared. NULL with the reason in
 * `error_out`. */
struct clerk *clerk_start(struct service *service, char *error_out, size_t error_size);

/* Ends the thread, after what it is at, and frees it. */
void clerk_stop(struct clerk **clerk);

#endif
