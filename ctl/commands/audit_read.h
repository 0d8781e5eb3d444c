/* What an audit reads of the service. */
#ifndef SECKILL_CTL_COMMANDS_AUDIT_READ_H
#define SECKILL_CTL_COMMANDS_AUDIT_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/commands/acked.h"
#include "ctl/commands/audit_sale.h"
#include "ctl/context.h"

/* So many orders at least, in a status or (NULL) in whatever one. */
struct least {
    char status[16];
    int64_t count;
};

struct audit {
    struct context *context;
    struct audit_sale *sales;
    size_t sale_count;
    struct acked acked;
    struct least made, state;
    bool moved;
    json_t *differences;
    json_t *awaiting;  /* segments that the service would recover before it sells from them */
    json_t *recovered; /* segments that a reconcile has set again */
};

/* The sale of this sku in the present pod; NULL if it is not audited. */
struct audit_sale *audit_find(struct audit *audit, const char *sku);

/* Reads all sales, their orders, the ids of orders where clients' ids are given, and all sales
 * again; `moved` then says whether these differ. EX_OK, or the exit status after a message. */
int audit_read(struct audit *audit);

#endif
