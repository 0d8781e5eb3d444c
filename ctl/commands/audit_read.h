/* Reads the sales and orders that an audit compares, and the ids that clients saw. */
#ifndef SECKILL_CTL_COMMANDS_AUDIT_READ_H
#define SECKILL_CTL_COMMANDS_AUDIT_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/commands/audit_sale.h"
#include "ctl/context.h"

/* Ids of orders that clients saw accepted, and which of them a listing has shown. */
struct acked {
    uint64_t *ids; /* sorted, each once */
    bool *seen;
    size_t count;
    size_t repeats; /* ids that stood in the file once more */
};

/* Reads a file of ids, one a line; "-" is standard input. False after a message. The caller frees
 * it. */
bool acked_read(struct acked *acked_out, const char *path);
void acked_free(struct acked *acked);

void acked_see(struct acked *acked, uint64_t id);

/* Forgets what was seen. */
void acked_restart(struct acked *acked);

/* How many were not seen; the first of them. */
size_t acked_missing(const struct acked *acked, uint64_t *first_out);

struct audit {
    struct context *context;
    struct audit_sale *sales;
    size_t sale_count;
    struct acked acked;
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
