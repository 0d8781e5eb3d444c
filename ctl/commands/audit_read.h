/* Reads, adds up and compares the sales and orders of an audit. */
#ifndef SECKILL_CTL_COMMANDS_AUDIT_READ_H
#define SECKILL_CTL_COMMANDS_AUDIT_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/context.h"

struct audit_sale {
    const char *sku;
    size_t pod;
    json_t *head; /* GET /admin/audit/{sku}; owned */
    int64_t round;
    bool round_changed;                          /* orders were added up for another round */
    uint64_t units;                              /* that orders of the round hold */
    uint64_t hash_sum;                           /* the same, each times a hash of its user */
    uint64_t reserved, paid, cancelled, expired; /* orders of the round */
    uint64_t unkeyed, without_expiry;            /* orders with a fault */
    uint64_t user_units, user_hash_sum, users_over_limit; /* as they are counted for users */
};

/* Takes a page of the sale: the first one says what the sale is, each more of its users.
 * EX_PROTOCOL for one of another form. */
int audit_sale_add_page(void *sale, json_t *page);

/* Adds a page's sums of this sale's orders. */
void audit_sale_add_orders(struct audit_sale *sale, const json_t *sums);

/* True if the sale has sold or taken back anything between two looks at it: each change moves the
 * fence of a segment. */
bool audit_sale_moved(const json_t *before, const json_t *after);

/* Adds a sentence for each difference to the one array; to the other one for each segment that the
 * service would recover before it sells from it again. */
void audit_sale_compare(const struct audit_sale *sale, json_t *differences, json_t *awaiting);

struct audit {
    struct context *context;
    struct audit_sale *sales;
    size_t sale_count;
    json_t *acked; /* an object whose names are the ids of orders that clients saw accepted */
    size_t acked_repeats; /* ids that stood in the file once more */
    json_t *missing;      /* those of `acked` that no listing has shown yet */
    bool moved;           /* a sale has sold or taken back anything while it was read */
    json_t *differences;
    json_t *awaiting;  /* segments that the service would recover before it sells from them */
    json_t *recovered; /* segments that a reconcile has set again */
};

/* The sale of this sku in the present pod; NULL if it is not audited. */
struct audit_sale *audit_find(struct audit *audit, const char *sku);

/* Adds the ids of a file, one a line; "-" is standard input. With --pod the ids of other pods are
 * left out. False after a message. */
bool audit_read_acked(struct audit *audit, const char *path);

/* Reads all sales, their orders, the ids of orders where clients' ids are given, and all sales
 * again; `moved` then says whether these differ. EX_OK, or the exit status after a message. */
int audit_read(struct audit *audit);

/* Sets `differences` and `awaiting` for all sales and for the ids that clients saw. */
void audit_compare(struct audit *audit);

#endif
