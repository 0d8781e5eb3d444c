/* Makes a failing schedule smaller: fewer faults, fewer steps, the same promise broken.
 *
 * Parts of what has struck are left out, halves first, then quarters and so on (delta debugging,
 * Zeller). Leaving out a fault changes what comes after it, and with it the numbers of later ones,
 * so each success begins anew with what strikes now. */
#include "test/simulate/shrink.h"

#include <string.h>

#include "test/simulate/world.h"

enum { RUNS_MAX = 3000 };

static int runs;

/* Failures are of one kind when their first words agree, numbers left out. */
static bool is_same(const char *broken, const char *first)
{
    size_t common = strcspn(first, "0123456789");
    return broken && (common < 8 || strncmp(broken, first, common) == 0);
}

static bool fails(uint64_t seed, const struct mask *mask, const char *first)
{
    runs++;
    return is_same(world_run(seed, mask), first);
}

static void add(uint32_t *masked, size_t *count, const uint32_t *numbers, size_t from, size_t to)
{
    for (size_t i = from; i < to && *count < MASK_MAX; i++)
        masked[(*count)++] = numbers[i];
}

static bool drop_faults(uint64_t seed, struct mask *mask, const char *first)
{
    const uint32_t *struck;
    uint32_t numbers[FAULTS_MAX];
    world_run(seed, mask);
    size_t count = chance_struck(&struck);
    memcpy(numbers, struck, count * sizeof *numbers);
    for (size_t part = count; part > 0; part /= 2)
        for (size_t from = 0; from < count && runs < RUNS_MAX; from += part) {
            struct mask fewer = *mask;
            size_t to = from + part < count ? from + part : count;
            add(fewer.faults, &fewer.fault_count, numbers, from, to);
            if (fewer.fault_count < MASK_MAX && fails(seed, &fewer, first)) {
                *mask = fewer;
                return true;
            }
        }
    return false;
}

static bool is_masked(const struct mask *mask, uint32_t step)
{
    for (size_t i = 0; i < mask->step_count; i++)
        if (mask->steps[i] == step)
            return true;
    return false;
}

static bool drop_steps(uint64_t seed, struct mask *mask, const char *first)
{
    uint32_t numbers[MASK_MAX];
    size_t count = 0;
    world_run(seed, mask);
    for (uint32_t step = 0; step < chance_steps() && count < MASK_MAX; step++)
        if (!is_masked(mask, step))
            numbers[count++] = step;
    for (size_t part = count; part > 0; part /= 2)
        for (size_t from = 0; from < count && runs < RUNS_MAX; from += part) {
            struct mask fewer = *mask;
            size_t to = from + part < count ? from + part : count;
            add(fewer.steps, &fewer.step_count, numbers, from, to);
            if (fewer.step_count < MASK_MAX && fails(seed, &fewer, first)) {
                *mask = fewer;
                return true;
            }
        }
    return false;
}

void shrink(uint64_t seed, struct mask *mask)
{
    char first[512];
    runs = 0;
    const char *broken = world_run(seed, mask);
    strncpy(first, broken ? broken : "", sizeof first - 1);
    first[sizeof first - 1] = '\0';
    while (drop_steps(seed, mask, first) || drop_faults(seed, mask, first))
        continue;
}
