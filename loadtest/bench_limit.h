/* The limit that a server sets: the shortest pair of requests that could make a lock, sent by the
 * plain client of that server. */
#ifndef LOADTEST_BENCH_LIMIT_H
#define LOADTEST_BENCH_LIMIT_H

#include "lock/seclock.h"

struct limit {
    const char *what;
    void (*first)(void);  /* as an acquisition: one round trip */
    void (*second)(void); /* as the release after it: one round trip */
};

/* The limit for a kind, connected to the server at `url`; NULL when it has none. One at a time: the
 * next call may end the connection of the one before. Its functions are for one thread at a time.
 * Ends the program on an unexpected answer. */
const struct limit *limit_open(enum seclock_kind kind, const char *url);

/* Prints what went wrong, and ends the program with status 1. */
void die(const char *what, const char *why) __attribute__((noreturn));

#endif
