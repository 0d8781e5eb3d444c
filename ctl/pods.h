/* Chooses the pods that a command asks, where the configuration lists several. */
#ifndef SECKILL_CTL_PODS_H
#define SECKILL_CTL_PODS_H

#include "ctl/commands.h"

/* Runs the command with its pod, or with each of its pods in turn. Returns the exit status, of
 * several the largest. */
int pods_run(const struct command *command, struct context *context);

/* Goes to the pod that has a sale of this sku, out of the context's pods. EX_NOINPUT if no pod has
 * one (with a message if `must_be`); any other failure after a message. */
int pods_find_sku(struct context *context, const char *sku, bool must_be);

/* Returns the pod in the bits of an order's id. Earlier versions had other bits there; their orders
 * are in pod 0. */
size_t pods_of_order(const struct config *config, uint64_t order_id);

#endif
