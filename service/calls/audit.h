/* GET /admin/audit and GET /admin/audit/{sku}: what an audit compares. */
#ifndef SECKILL_SERVICE_CALLS_AUDIT_H
#define SECKILL_SERVICE_CALLS_AUDIT_H

#include "service/calls/call.h"

/* Both change nothing, and look at a bounded number of rows, page by page. The first adds up orders
 * by sale; the second shows a sale's segments in the ledger and in Redis, and adds up what is
 * counted for its users. */
enum call_start call_audit_orders(struct service *service, struct request *request,
                                  const struct call *call);
enum call_start call_audit_sale(struct service *service, struct request *request,
                                const struct call *call);

#endif
