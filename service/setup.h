/* What the daemon does instead of serving: --check-config, --migrate, --print-grants. */
#ifndef SECKILL_SERVICE_SETUP_H
#define SECKILL_SERVICE_SETUP_H

#include "service/config/config.h"

/* Does what `config->mode` asks for, which is not CONFIG_SERVE, and frees the configuration.
 * Returns the exit status: 0, 1 when the ledger could not be changed, 2 when the configuration does
 * not suffice. Main thread, with SIGTERM and SIGINT blocked. */
int setup_run(struct config *config);

#endif
