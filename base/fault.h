/* Keeps the failures of a client of a remote server: the last one, for the caller that writes the
 * log, and when to try again. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* All zeros: nothing has failed. One per client; it belongs to the client's thread. */
struct fault {
    unsigned count;  /* failures since the last fault_clear */
    bool damaged;    /* one of them is a server's row that makes no sense */
    char doing[48];  /* the action of the last failure: "connect", "UPDATE orders" */
    char error[256]; /* the reason of the last failure */
};

/* Notes one failure; cuts texts that are too long. The texts may be the fault's own. */
void fault_note(struct fault *fault, const char *doing, const char *error);

/* Notes a row that makes no sense; `error` names it by its key. */
void fault_note_damage(struct fault *fault, const char *error);

/* Forgets what was noted: from now on only later failures count. */
void fault_clear(struct fault *fault);

/* A delay before the next try, which doubles with each failure in a row, with jitter, so that the
 * clients of a server that comes back do not all connect at once. The owner embeds it; nothing
 * needs freeing. One thread at a time. The caller passes times of clock_now_ms, so that tests can
 * move the clock. */
struct backoff {
    int delay_ms_min, delay_ms_max;
    int delay_ms; /* of the next failure, before jitter */
    unsigned random;
    int64_t retry_at_ms;
};

/* The delay begins with delay_ms_min and doubles up to delay_ms_max; each wait is a random 50 to
 * 100 % of it. 0 < delay_ms_min <= delay_ms_max. Seeds of a server's clients should differ. */
void backoff_init(struct backoff *backoff, int delay_ms_min, int delay_ms_max, unsigned seed);

/* True when the delay is over, or there was no failure. */
bool backoff_over(const struct backoff *backoff, int64_t now_ms);

/* Call after a failed try: the delay begins at `now_ms`. */
void backoff_fail(struct backoff *backoff, int64_t now_ms);

/* Call after a successful try: the next failure delays by delay_ms_min again. */
void backoff_reset(struct backoff *backoff);

#endif
