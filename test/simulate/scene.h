/* The sales, as every part of the simulation knows them. */
#ifndef SIMULATE_SCENE_H
#define SIMULATE_SCENE_H

/* The sku of a sale by its number, and back. */
#define SCENE_SKU(i) ((i) == 0 ? "s" : "t")
#define SCENE_SALE_OF(sku) ((sku)[0] == 's' ? 0 : 1)

#include <stdbool.h>
#include <stdint.h>

enum { SCENE_SALES_MAX = 2, SCENE_SEGMENTS_MAX = 8, SCENE_LEASE_MS = 300 };

/* How a schedule sells. */
struct scene {
    int sales;
    const char *strategy;
    bool locked;         /* by segment_lock, without which an order may be refused in vain */
    bool counters;       /* units under way are missing from them, and leak with their process */
    bool guarded;        /* by a guard lock */
    bool daemons;        /* by whole daemons, not by order workers alone */
    bool events;         /* the ledger notes what happens to orders */
    uint32_t rate_burst; /* of orders of one user; 0: no limit */
};

extern struct scene scene;

#endif
