/* Reads, adds up and compares the sales and orders of an audit. */
#ifndef SECKILL_CTL_COMMANDS_AUDIT_READ_H
#define SECKILL_CTL_COMMANDS_AUDIT_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/commands/payment_file.h"
#include "ctl/context.h"

struct audit_sale {
    const char *sku;
    size_t pod;
    json_t *head; /* GET /admin/audit/{sku}; owned */
    json_int_t round;
    bool round_changed; /* orders were added up for another round */
    json_int_t units;   /* held by orders of the round */
    uint64_t hash_sum;  /* these units, each times a hash of its user */
    json_int_t reserved, paid, cancelled, expired, refunded; /* orders of the round */
    json_int_t unreturned;                           /* units of refunded orders that stay sold */
    json_int_t taken, refund_due, paid_back, failed; /* payments of the orders */
    json_int_t unkeyed, without_expiry, unmatched;   /* orders with a fault */
    json_int_t user_units, users_over_limit;         /* from the counts per user */
    uint64_t user_hash_sum;
};

/* Takes a page of the sale: the first describes the sale, each further one more of its users.
 * EX_PROTOCOL for a page of another form. */
int audit_sale_add_page(void *sale, json_t *page);

/* Adds a page's sums of this sale's orders. */
void audit_sale_add_orders(struct audit_sale *sale, const json_t *sums);

/* True if the sale has sold or taken back units between two readings: each change moves the fence
 * of a segment. */
bool audit_sale_moved(const json_t *before, const json_t *after);

/* Adds a sentence to `differences` for each difference, and to `awaiting` for each segment that the
 * service would recover before it sells from it again. */
void audit_sale_compare(const struct audit_sale *sale, json_t *differences, json_t *awaiting);

struct audit {
    struct context *context;
    struct audit_sale *sales;
    size_t sale_count;
    json_t *acked;    /* an object whose names are the ids of orders that clients saw accepted */
    json_t *repeated; /* ids of `acked` that the file has more than once */
    json_t *missing;  /* ids of `acked` that no listing has shown yet */
    struct payment_file payments; /* of --payments; without it empty, and nothing is compared */
    bool moved;                   /* a sale has sold or taken back units while it was read */
    json_t *differences;
    json_t *awaiting;  /* segments that the service would recover before it sells from them */
    json_t *recovered; /* segments that a reconcile has set again */
};

/* Finds the sale of this sku in the present pod; NULL if it is not audited. */
struct audit_sale *audit_find(struct audit *audit, const char *sku);

/* Adds the ids of a file's column order_id, as csv_read does. With --pod the ids of other pods are
 * left out. False after a message. */
bool audit_read_acked(struct audit *audit, const char *path);

/* Reads all sales, their orders, clients' ids and payments if given, and all sales again; `moved`
 * then says whether the sales differ. EX_OK, or the exit status after a message. */
int audit_read(struct audit *audit);

/* Sets `differences` and `awaiting` for all sales, the clients' ids and the payments. */
void audit_compare(struct audit *audit);

#endif
