/* How a hold is begun and what an answer makes of it. */
#include "lock/lock_hold.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void random_token(char token[LOCK_TOKEN_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char bits[LOCK_TOKEN_SIZE / 2];
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        abort(); /* a guessable token would be no token */
    for (size_t i = 0; i < sizeof bits; i++) {
        token[2 * i] = hex[bits[i] >> 4];
        token[2 * i + 1] = hex[bits[i] & 15];
    }
    token[LOCK_TOKEN_SIZE - 1] = '\0';
}

void lock_hold_init(struct lock_hold *hold, const char *prefix, const char *name, int lease_ms)
{
    assert(strlen(name) < LOCK_NAME_MAX && strlen(prefix) < LOCK_PREFIX_MAX);
    strcpy(hold->name, name);
    strcpy(hold->prefix, prefix);
    random_token(hold->token);
    hold->state = LOCK_RELEASED;
    hold->fence = 0;
    hold->lease_ms = lease_ms;
    hold->deadline_ns = 0;
}

void lock_hold_acquired(struct lock_hold *hold, enum lock_result result, int64_t sent_ns)
{
    /* The server's clock may run a little faster than ours: 1 % and 2 ms are given away. */
    int64_t lease_ns = (int64_t)hold->lease_ms * 1000000;
    hold->deadline_ns = sent_ns + lease_ns - lease_ns / 100 - 2000000;
    hold->state = result == LOCK_OK        ? LOCK_HELD
                  : result == LOCK_UNKNOWN ? LOCK_IN_DOUBT
                                           : LOCK_RELEASED;
}
