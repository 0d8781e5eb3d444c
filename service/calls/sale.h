/* The admin's calls: /admin/stock/reset, /admin/stock/add, /admin/sale/{sku} and
 * /admin/reconcile. */
#ifndef SECKILL_SERVICE_CALLS_SALE_H
#define SECKILL_SERVICE_CALLS_SALE_H

#include "service/calls/call.h"

/* The handlers, see call_handler. */
enum call_start call_sale_reset(struct service *service, struct request *request,
                                const struct call *call);
enum call_start call_sale_restock(struct service *service, struct request *request,
                                  const struct call *call);
enum call_start call_sale_change(struct service *service, struct request *request,
                                 const struct call *call);
enum call_start call_sale_retire(struct service *service, struct request *request,
                                 const struct call *call);
enum call_start call_sale_reconcile(struct service *service, struct request *request,
                                    const struct call *call);

#endif
