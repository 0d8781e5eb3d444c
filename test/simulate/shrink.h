/* Makes a failing schedule smaller: fewer faults, fewer steps, the same promise broken. */
#ifndef SIMULATE_SHRINK_H
#define SIMULATE_SHRINK_H

#include "test/simulate/machine/chance.h"

/* Adds to a mask, under which the schedule of that seed breaks a promise, whatever else can be left
 * out. */
void shrink(uint64_t seed, struct mask *mask);

#endif
