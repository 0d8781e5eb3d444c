/* What each call does with a request that has been read: answer it at once, or send it on. */
#ifndef SECKILL_SERVICE_HANDLERS_H
#define SECKILL_SERVICE_HANDLERS_H

#include "service/request.h"
#include "service/service.h"

enum start_result {
    START_ANSWERED, /* request->answer is filled in */
    START_TO_LANE,  /* request->order is filled in */
    START_TO_DESK,  /* request->work is set */
};

enum { PARAMETERS_MAX = 8 };

/* One of those behind the question mark, decoded. */
struct call_parameter {
    const char *name;
    const char *value;
};

/* A request as its front has read it. The texts are valid during the call only. */
struct call {
    const char *tail; /* of the path, behind the route's own */
    const char *body; /* need not end in NUL */
    size_t body_length;
    const char *key; /* Idempotency-Key, or NULL */
    int64_t now_ns;
    struct call_parameter parameters[PARAMETERS_MAX]; /* of a request without a body */
    size_t parameter_count;                           /* greater than the array: there were more */
};

/* All of these run on the front's thread and do not block. */
#define HANDLERS(X)                                                                                \
    X(order_post)                                                                                  \
    X(order_get)                                                                                   \
    X(order_pay)                                                                                   \
    X(order_cancel)                                                                                \
    X(stock_get)                                                                                   \
    X(admin_reset)                                                                                 \
    X(admin_add)                                                                                   \
    X(user_orders)                                                                                 \
    X(admin_csv)                                                                                   \
    X(admin_orders)                                                                                \
    X(admin_sales)                                                                                 \
    X(admin_sale)                                                                                  \
    X(admin_reconcile)                                                                             \
    X(healthz)                                                                                     \
    X(readyz)                                                                                      \
    X(metrics)                                                                                     \
    X(openapi)

#define HANDLER_DECLARE(name)                                                                      \
    enum start_result handle_##name(struct service *service, struct request *request,              \
                                    const struct call *call);
HANDLERS(HANDLER_DECLARE)
#undef HANDLER_DECLARE

#endif
