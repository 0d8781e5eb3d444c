/* POST /order. */
#ifndef SECKILL_SERVICE_CALLS_ORDER_H
#define SECKILL_SERVICE_CALLS_ORDER_H

#include "service/calls/call.h"

/* The handler, see call_handler. */
enum call_start call_order_post(struct service *service, struct request *request,
                                const struct call *call);

/* Reads the body of POST /order, exactly sku, user_id and qty, into the order. False with what is
 * wrong in `detail_out` (a constant text). The text need not end in NUL. */
bool order_body_parse(const char *text, size_t length, struct stock_order *order,
                      const char **detail_out);

/* The same by jansson alone, as order_body_parse does with every body that is not of the plainest
 * form. Declared for tests to compare the two. */
bool order_body_parse_json(const char *text, size_t length, struct stock_order *order,
                           const char **detail_out);

#endif
