/* An order as its answers show it. */
#ifndef SECKILL_SERVICE_ORDER_JSON_H
#define SECKILL_SERVICE_ORDER_JSON_H

#include "sql/ledger_lookup.h"

struct json_t;

/* A new jansson value, the caller's. */
struct json_t *order_json(const struct ledger_record *record);

#endif
