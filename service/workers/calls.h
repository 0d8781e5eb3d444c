/* Threads that answer everything but orders: look-ups and admin calls. */
#ifndef SECKILL_SERVICE_WORKERS_CALLS_H
#define SECKILL_SERVICE_WORKERS_CALLS_H

#include "service/request.h"
#include "service/service.h"

struct desk {
    struct service *service;
    struct stock *stock; /* its own connections */
};

struct desk_thread;

/* Starts a desk, which takes requests from service->calls until that is stopped and empty. NULL
 * with the reason in `error_out`. */
struct desk_thread *desk_start(struct service *service, char *error_out, size_t error_size);

/* Waits for the thread to end, and frees it. */
void desk_join(struct desk_thread **thread);

/* How long a call may wait for locks of segments: until a holder that died has lost its lease. */
int desk_lock_wait_ms(const struct desk *desk);

/* Answers with a jansson value as text, and lets go of it. */
struct json_t;
void desk_answer(struct request *request, unsigned status, struct json_t *value);

#endif
