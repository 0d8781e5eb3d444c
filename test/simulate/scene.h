/* What every part of the simulation knows of the sales. */
#ifndef SIMULATE_SCENE_H
#define SIMULATE_SCENE_H

/* The sku of a sale by its number, and back. */
#define SCENE_SKU(i) ((i) == 0 ? "s" : "t")
#define SCENE_SALE_OF(sku) ((sku)[0] == 's' ? 0 : 1)

enum { SCENE_SALES_MAX = 2, SCENE_SEGMENTS_MAX = 8, SCENE_LEASE_MS = 300 };

#endif
