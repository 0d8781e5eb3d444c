/* One sale in an audit: what its orders hold beside what its segments say is sold. */
#ifndef SECKILL_CTL_AUDIT_SALE_H
#define SECKILL_CTL_AUDIT_SALE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AUDIT_SEGMENTS_MAX = 1024 };

/* An order that several segments may have filled: the listing names the first one only. */
struct audit_order {
    uint64_t id;
    uint32_t segment, qty;
};

struct audit_sale {
    const char *sku;
    json_t *stock; /* GET /admin/stock/{sku}; owned */
    int64_t round;
    uint64_t ordered[AUDIT_SEGMENTS_MAX]; /* units that orders of the round hold */
    uint64_t outside;       /* units of orders in segments that the sale does not have */
    uint64_t orders, units; /* that hold units */
    uint64_t reserved, paid, cancelled, expired; /* orders of the round */
    struct audit_order *several;                 /* orders of more than one unit */
    size_t several_count, several_size;
};

/* Begins with the sale's stock, of which it takes over the caller's reference. */
void audit_sale_begin(struct audit_sale *sale_out, const char *sku, json_t *stock);
void audit_sale_free(struct audit_sale *sale);

/* Counts one order, which must be of this sku; those of other rounds do not count. */
void audit_sale_add(struct audit_sale *sale, const struct audit_order *order, int64_t round,
                    const char *status);

/* Whether this order's segment seems to hold more than it has sold, so that its allocations must be
 * looked at. */
bool audit_sale_doubts(const struct audit_sale *sale, const struct audit_order *order);

/* Counts an order's units where its allocations say; `allocations` NULL: one segment filled it. */
void audit_sale_allocate(struct audit_sale *sale, const struct audit_order *order,
                         const json_t *allocations);

/* Whether the sale has sold or taken back anything between two looks at its stock. */
bool audit_sale_moved(const json_t *before, const json_t *after);

/* Adds a sentence for each difference to the JSON array. */
void audit_sale_compare(const struct audit_sale *sale, json_t *differences);

#endif
