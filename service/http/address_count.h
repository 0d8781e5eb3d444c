/* How many connections each client address has. */
#ifndef SECKILL_SERVICE_HTTP_ADDRESS_COUNT_H
#define SECKILL_SERVICE_HTTP_ADDRESS_COUNT_H

#include <stdbool.h>

#include "service/config/networks.h"

struct address_count;

/* Any thread may call all functions but the first two. An IPv6 address counts as its /64, as one
 * client usually has that many addresses. */

struct address_count *address_count_open(unsigned max);

/* Frees it. NULL is fine. */
void address_count_close(struct address_count **count);

/* Whether the address has `max` connections. */
bool address_count_full(struct address_count *count, const struct address *address);

/* One connection more, whatever the count. */
void address_count_add(struct address_count *count, const struct address *address);

/* One that was added is gone. */
void address_count_remove(struct address_count *count, const struct address *address);

#endif
