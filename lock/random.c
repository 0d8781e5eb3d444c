/* Random numbers for pauses, random text for ids. */
#include "lock/random.h"

#include <assert.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

void lock_random_text(char text_out[LOCK_RANDOM_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char bits[LOCK_RANDOM_SIZE / 2];
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        abort(); /* a token that can be guessed guards nothing */
    for (size_t i = 0; i < sizeof bits; i++) {
        text_out[2 * i] = hex[bits[i] >> 4];
        text_out[2 * i + 1] = hex[bits[i] & 15];
    }
    text_out[LOCK_RANDOM_SIZE - 1] = '\0';
}

/* xorshift, seeded for each thread: jitter has to differ between processes, nothing more. */
unsigned lock_random(unsigned bound)
{
    static _Thread_local uint64_t state;
    assert(bound > 0);
    while (state == 0)
        if (getrandom(&state, sizeof state, 0) != (ssize_t)sizeof state)
            abort();
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 32) % bound);
}

void lock_random_pause(unsigned most_ms)
{
    poll(NULL, 0, 1 + (int)lock_random(most_ms));
}
