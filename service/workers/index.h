/* Files committed orders under their users, behind everybody's back. */
#ifndef SECKILL_SERVICE_WORKERS_INDEX_H
#define SECKILL_SERVICE_WORKERS_INDEX_H

#include "service/service.h"

struct clerk;

/* Starts the thread, which begins once the service is prepared. NULL with the reason in
 * `error_out`. */
struct clerk *clerk_start(struct service *service, char *error_out, size_t error_size);

/* Tells the thread to end after what it is at, and does not wait for it. NULL is fine. */
void clerk_stop(struct clerk *clerk);

/* Waits for the thread to end, and frees it. */
void clerk_join(struct clerk **clerk);

#endif
