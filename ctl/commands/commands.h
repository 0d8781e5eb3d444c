/* The commands. Each returns the exit status, see EXIT STATUS in seckillctl(1). */
#ifndef SECKILL_CTL_COMMANDS_COMMANDS_H
#define SECKILL_CTL_COMMANDS_COMMANDS_H

#include "ctl/context.h"

/* Commands that look. */
int status_run(struct context *context);
int top_run(struct context *context); /* until q or a signal; without a terminal --count frames */
int sales_run(struct context *context);
int sales_stock(struct context *context);
int orders_one(struct context *context);
int orders_of_user(struct context *context);
int export_run(struct context *context);

/* Commands that change a sale. */
int round_create(struct context *context);
int round_reset(struct context *context);
int round_restock(struct context *context);
int round_retire(struct context *context);
int settings_pause(struct context *context);
int settings_resume(struct context *context);
int settings_window(struct context *context);
int settings_limit(struct context *context);
int settings_pay_within(struct context *context);

/* Commands that compare. */
int audit_run(struct context *context);
int reconcile_run(struct context *context);

/* Commands for daemons, and for files of tokens; no token is ever printed. */
int process_log_level(struct context *context);
int process_drain(struct context *context);
int token_run(struct context *context);

#endif
