/* The body of POST /order: exactly sku, user_id and qty. */
#ifndef SECKILL_SERVICE_ORDER_BODY_H
#define SECKILL_SERVICE_ORDER_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include "stock/order.h"

/* Reads sku, user_id and qty into the order. False with what is wrong in `detail_out` (a constant
 * text). The text need not end in NUL. */
bool order_body_parse(const char *text, size_t length, struct stock_order *order,
                      const char **detail_out);

/* The same by jansson alone: what order_body_parse does with every body that is not of the plainest
 * form. Here for tests to compare. */
bool order_body_parse_json(const char *text, size_t length, struct stock_order *order,
                           const char **detail_out);

#endif
