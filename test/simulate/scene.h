/* What every part of the simulation knows of the one sale. */
#ifndef SIMULATE_SCENE_H
#define SIMULATE_SCENE_H

#define SCENE_SKU "s"

enum { SCENE_SEGMENTS_MAX = 8, SCENE_LEASE_MS = 300 };

#endif
