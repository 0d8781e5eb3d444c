/* When to try again what has failed: after a delay that doubles with each failure in a row, with
 * jitter, so that many clients of a server that comes back do not come to it together. */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

/* Its owner embeds it, nothing needs freeing. One thread at a time. Times are those of
 * clock_now_ms; the caller hands them in, so that tests can move them. */
struct backoff {
    int delay_ms_min, delay_ms_max;
    int delay_ms; /* of the next failure, before jitter */
    unsigned random;
    int64_t retry_at_ms;
};

/* The first failure delays by delay_ms_min, those after it by twice as much each time up to
 * delay_ms_max, less up to half of it by chance. 0 < delay_ms_min <= delay_ms_max. Seeds should
 * differ between the clients of one server. */
void backoff_init(struct backoff *backoff, int delay_ms_min, int delay_ms_max, unsigned seed);

/* True when the delay is over, or there was no failure. */
bool backoff_over(const struct backoff *backoff, int64_t now_ms);

/* A try has failed: the next one is delayed from now on. */
void backoff_fail(struct backoff *backoff, int64_t now_ms);

/* A try has succeeded: the next failure delays by the least again. */
void backoff_reset(struct backoff *backoff);

#endif
