/* The memory of one schedule: all of it is taken back at once when the next one begins.
 *
 * The linker sends the project's calls of malloc and its kin here (--wrap). So what a process that
 * dies has allocated goes with it, and every address is the same whenever a seed is repeated. */
#ifndef SIMULATE_ARENA_H
#define SIMULATE_ARENA_H

#include <stddef.h>

/* Maps the pages of a large block, of so many bytes, which are about to be read: together that is
 * cheaper than one by one. */
void arena_touch(void *memory, size_t size);

/* Takes back everything. */
void arena_reset(void);

#endif
