/* Counts of what happened in all schedules, of whatever job, to show what they reach. */
#include "test/simulate/tally.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { COUNTS_MAX = 256 };

/* Jobs are forks of one process, so a literal has the same address in each. */
struct count {
    _Atomic(const char *) what;
    _Atomic uint64_t count;
};

static struct count *counts;

void tally_open(void)
{
    counts = mmap(NULL, COUNTS_MAX * sizeof *counts, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED)
        abort();
}

/* True when the place is that text's, by now. */
static bool is_place(struct count *count, const char *what)
{
    const char *present = NULL;
    return atomic_compare_exchange_strong(&count->what, &present, what) || present == what;
}

void tally_add(const char *what, uint64_t count)
{
    size_t slot = (uintptr_t)what / 8;
    for (size_t i = 0; counts && i < COUNTS_MAX; i++)
        if (is_place(&counts[(slot + i) % COUNTS_MAX], what)) {
            counts[(slot + i) % COUNTS_MAX].count += count;
            return;
        }
}

void tally(const char *what)
{
    tally_add(what, 1);
}

/* Literals of one text may have several addresses. */
uint64_t tally_count(const char *what)
{
    uint64_t count = 0;
    for (size_t i = 0; counts && i < COUNTS_MAX; i++)
        if (counts[i].what && strcmp(counts[i].what, what) == 0)
            count += counts[i].count;
    return count;
}

static int compare(const void *a, const void *b)
{
    const struct count *one = a, *other = b;
    return one->count > other->count ? -1 : one->count < other->count;
}

void tally_print(void)
{
    qsort(counts, COUNTS_MAX, sizeof *counts, compare);
    for (size_t i = 0; i < COUNTS_MAX && counts[i].what; i++)
        printf("%12llu  %s\n", (unsigned long long)counts[i].count, counts[i].what);
}
