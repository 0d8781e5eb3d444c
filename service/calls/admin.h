/* What the admin calls share: reading their bodies, and telling why nothing was done. */
#ifndef SECKILL_SERVICE_ADMIN_H
#define SECKILL_SERVICE_ADMIN_H

#include <jansson.h>

#include "service/calls/call.h"

/* Reads the body as a JSON object; the caller lets go of it. NULL when it is not one: then the
 * request is answered. */
json_t *admin_read_object(struct request *request, const struct call *call);

/* The same for an object with the member sku, which goes to request->order.sku. */
json_t *admin_read_sale(struct request *request, const struct call *call);

/* Reads a whole number from 1 to `max`. False when there is no such member, or it is not one. */
bool admin_read_number(const json_t *object, const char *name, json_int_t max, uint32_t *out);

/* Answers a call that was not done, or that may not have been. */
void admin_answer_failure(struct request *request, enum stock_admin_result result);

#endif
