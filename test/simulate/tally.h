/* Counts of what happened in all schedules, of whatever job, to show what they reach. */
#ifndef SIMULATE_TALLY_H
#define SIMULATE_TALLY_H

#include <stdint.h>

/* Shares the counts with the jobs that are forked from now on. */
void tally_open(void);

/* Counts one, or several; the text is a literal, or lives as long. */
void tally(const char *what);
void tally_add(const char *what, uint64_t count);

/* How often that was counted. */
uint64_t tally_count(const char *what);

/* Prints all counts, the greatest first. */
void tally_print(void);

#endif
