/* Parts of the seam of threads for the simulation alone. */
#ifndef SIMULATE_SEAM_THREAD_H
#define SIMULATE_SEAM_THREAD_H

#include <stdint.h>

struct process;

enum { SEAM_FD = 1000 }; /* the first of the simulated descriptors */

/* The descriptor by which the threads of a process wake its HTTP thread, and the wait of that
 * thread, which ends when the descriptor is written to, or was before. */
int seam_wake_fd(const struct process *process);
void seam_wake_await(int fd, int64_t until_ns);

#endif
