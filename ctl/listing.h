/* Walks all orders: by the service's stream, and page by page from where the stream breaks. */
#ifndef SECKILL_CTL_LISTING_H
#define SECKILL_CTL_LISTING_H

#include <stdbool.h>
#include <stddef.h>

#include "ctl/context.h"

#define LISTING_HEADER "order_id,sku,user_id,qty,segment,status,created_at,expires_at,round"

struct listing {
    const char *sku;    /* only this sale's orders; NULL: of all */
    const char *status; /* only such orders; NULL: all */
    const char *after;  /* only orders behind this id; NULL: all */
    /* Takes one order, a line of CSV as LISTING_HEADER names them, ended by NUL. False ends the
     * walk. */
    bool (*take)(void *argument, const char *line, size_t length);
    void *argument;
};

/* Walks the orders in the order of their ids, each once. EX_OK when `take` has got them all, or has
 * ended the walk; else the exit status, after a message that says where it ended. */
int listing_walk(struct context *context, const struct listing *listing);

#endif
