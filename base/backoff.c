/* When to try again what has failed. */
#include "base/backoff.h"

#include <assert.h>
#include <stdlib.h>

void backoff_init(struct backoff *backoff, int delay_ms_min, int delay_ms_max, unsigned seed)
{
    assert(delay_ms_min > 0 && delay_ms_min <= delay_ms_max);
    *backoff = (struct backoff){
        .delay_ms_min = delay_ms_min,
        .delay_ms_max = delay_ms_max,
        .delay_ms = delay_ms_min,
        .random = seed,
        .retry_at_ms = INT64_MIN,
    };
}

bool backoff_over(const struct backoff *backoff, int64_t now_ms)
{
    return now_ms >= backoff->retry_at_ms;
}

void backoff_fail(struct backoff *backoff, int64_t now_ms)
{
    int delay_ms = backoff->delay_ms;
    /* At least half of the delay remains: jitter down to nothing would hammer a server that is
     * down, once in a while. */
    backoff->retry_at_ms = now_ms + delay_ms / 2 + rand_r(&backoff->random) % (delay_ms / 2 + 1);
    backoff->delay_ms = delay_ms > backoff->delay_ms_max / 2 ? backoff->delay_ms_max : delay_ms * 2;
}

void backoff_reset(struct backoff *backoff)
{
    backoff->delay_ms = backoff->delay_ms_min;
    backoff->retry_at_ms = INT64_MIN;
}
