/* Parts of the seam of lock/ for the simulation alone. */
#ifndef SIMULATE_SEAM_LOCK_H
#define SIMULATE_SEAM_LOCK_H

/* Begins a schedule: tokens count from one. */
void seam_lock_begin(void);

#endif
