/* seckillctl reconcile: Redis compared with the ledger, and corrected. */
#ifndef SECKILL_CTL_RECONCILE_H
#define SECKILL_CTL_RECONCILE_H

#include <jansson.h>

#include "ctl/context.h"

/* Returns the exit status: EX_OK when Redis now says what the ledger says. */
int reconcile_run(struct context *context);

/* POST /admin/reconcile of one sale. EX_OK with the report, which the caller releases; else the
 * exit status after a message. */
int reconcile_sale(struct context *context, const char *sku, json_t **report_out);

#endif
