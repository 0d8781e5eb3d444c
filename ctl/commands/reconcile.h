/* seckillctl reconcile: Redis compared with the ledger, and corrected. */
#ifndef SECKILL_CTL_COMMANDS_RECONCILE_H
#define SECKILL_CTL_COMMANDS_RECONCILE_H

#include <jansson.h>

#include "ctl/context.h"

/* POST /admin/reconcile of one sale. EX_OK with the report, which the caller releases; else the
 * exit status after a message. */
int reconcile_sale(struct context *context, const char *sku, json_t **report_out);

#endif
