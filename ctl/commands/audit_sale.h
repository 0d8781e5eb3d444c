/* Adds up one sale in an audit, and compares its orders with its segments. */
#ifndef SECKILL_CTL_COMMANDS_AUDIT_SALE_H
#define SECKILL_CTL_COMMANDS_AUDIT_SALE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AUDIT_SEGMENTS_MAX = 1024 };

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

/* Begins with the sale's first page, of which it takes over the caller's reference. */
void audit_sale_begin(struct audit_sale *sale_out, const char *sku, size_t pod, json_t *head);
void audit_sale_free(struct audit_sale *sale);

/* Adds what a page of the sale says of users. */
void audit_sale_add_users(struct audit_sale *sale, const json_t *page);

/* Adds a page's sums of this sale's orders. */
void audit_sale_add_orders(struct audit_sale *sale, const json_t *sums);

/* True if the sale has sold or taken back anything between two looks at it: each change moves the
 * fence of a segment. */
bool audit_sale_moved(const json_t *before, const json_t *after);

/* Adds a sentence for each difference to the one array; to the other one for each segment that the
 * service would recover before it sells from it again. */
void audit_sale_compare(const struct audit_sale *sale, json_t *differences, json_t *awaiting);

#endif
