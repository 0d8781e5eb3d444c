/* Words and small things that all of lock/ needs: names of results and kinds, the last error,
 * random numbers, a sleep that can be cancelled. */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "lock/lock_driver.h"

static _Thread_local char last_error[256];

void lock_set_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
}

const char *seclock_error(void)
{
    return last_error;
}

#define RESULT_NAME(id, name) [SECLOCK_##id] = name,
static const char *const result_names[] = {SECLOCK_RESULTS(RESULT_NAME)};
#undef RESULT_NAME

const char *seclock_result_name(enum seclock_result result)
{
    return (unsigned)result < SECLOCK_RESULT_COUNT ? result_names[result] : "?";
}

const char *seclock_state_name(enum seclock_state state)
{
    static const char *const names[] = {"released", "held", "unknown", "lost"};
    return (unsigned)state < sizeof names / sizeof names[0] ? names[state] : "?";
}

#define KIND_NAME(id, name, scheme, what) [SECLOCK_KIND_##id] = name,
static const char *const kind_names[] = {SECLOCK_KINDS(KIND_NAME)};
#undef KIND_NAME

const char *seclock_kind_name(enum seclock_kind kind)
{
    return (unsigned)kind < SECLOCK_KIND_COUNT ? kind_names[kind] : "?";
}

bool seclock_kind_find(const char *name, enum seclock_kind *kind_out)
{
    for (int i = 0; i < SECLOCK_KIND_COUNT; i++)
        if (strcmp(kind_names[i], name) == 0) {
            *kind_out = (enum seclock_kind)i;
            return true;
        }
    return false;
}

void lock_random_text(char text_out[LOCK_RANDOM_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char bits[LOCK_RANDOM_SIZE / 2];
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        abort(); /* a guessable token would be no token */
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
    while (state == 0)
        if (getrandom(&state, sizeof state, 0) != (ssize_t)sizeof state)
            abort();
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 32) % bound);
}

bool lock_sleep_ms(int ms, int cancel_fd)
{
    struct pollfd fd = {.fd = cancel_fd > 0 ? cancel_fd : -1, .events = POLLIN};
    return poll(&fd, 1, ms) > 0;
}
