/* Keeps the failures of a client of a remote server, and delays its next try. */
#include "base/fault.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void copy(char *out, size_t size, const char *text)
{
    size_t length = strlen(text);
    if (length >= size)
        length = size - 1;
    memmove(out, text, length); /* the text may be the one that is there */
    out[length] = '\0';
}

void fault_note(struct fault *fault, const char *doing, const char *error)
{
    copy(fault->doing, sizeof fault->doing, doing);
    copy(fault->error, sizeof fault->error, error);
    fault->count++;
}

void fault_note_damage(struct fault *fault, const char *error)
{
    fault_note(fault, "check", error);
    fault->damaged = true;
}

void fault_clear(struct fault *fault)
{
    fault->count = 0;
    fault->damaged = false;
}

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
    /* Keeps half of the delay: jitter down to zero would sometimes hammer a server that is down. */
    backoff->retry_at_ms = now_ms + delay_ms / 2 + rand_r(&backoff->random) % (delay_ms / 2 + 1);
    backoff->delay_ms = delay_ms > backoff->delay_ms_max / 2 ? backoff->delay_ms_max : delay_ms * 2;
}

void backoff_reset(struct backoff *backoff)
{
    backoff->delay_ms = backoff->delay_ms_min;
    backoff->retry_at_ms = INT64_MIN;
}
