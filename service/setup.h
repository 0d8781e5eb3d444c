/* The modes in which the daemon does not serve: --check-config, --migrate, --print-grants. */
#ifndef SECKILL_SERVICE_SETUP_H
#define SECKILL_SERVICE_SETUP_H

#include "service/config/config.h"

/* Runs `config->mode`, which is not CONFIG_SERVE, and frees the configuration. Returns the exit
 * status: 0; 1 when the ledger could not be changed; 2 when the configuration is insufficient. Main
 * thread, with SIGTERM and SIGINT blocked. */
int setup_run(struct config *config);

#endif
