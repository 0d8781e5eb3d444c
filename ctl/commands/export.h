/* Walks all orders, page by page, as export and audit do. */
#ifndef SECKILL_CTL_COMMANDS_EXPORT_H
#define SECKILL_CTL_COMMANDS_EXPORT_H

#include <jansson.h>
#include <stdbool.h>

#include "ctl/context.h"

struct listing {
    const char *sku;    /* only this sale's orders; NULL: of all */
    const char *status; /* only such orders; NULL: all */
    const char *after;  /* only orders behind this id; NULL: all */
    /* Takes one order, whose texts are printable ASCII. EX_IOERR ends the walk. */
    int (*take)(void *argument, const json_t *order);
    void *argument;
};

/* Walks the orders of the present pod in the order of their ids, each once. EX_OK when `take` has
 * got them all, EX_IOERR when it has ended the walk; else the exit status, after a message that
 * says where it ended. */
int listing_walk(struct context *context, struct listing *listing);

#endif
