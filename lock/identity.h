/* Private to lock/: random numbers for pauses and tokens, and the ids of clients. */
#ifndef LOCK_IDENTITY_H
#define LOCK_IDENTITY_H

#include "lock/seclock.h"

/* A uniform random number below bound > 0, good enough for jitter. Any thread. */
unsigned lock_random(unsigned bound);

/* 128 random bits as 32 hexadecimal digits and a NUL. */
enum { LOCK_RANDOM_SIZE = 33 };
void lock_random_text(char text_out[LOCK_RANDOM_SIZE]);

/* Sleeps for a random time of 1 ms to `most_ms`, so that callers that collided do so no more. */
void lock_random_pause(unsigned most_ms);

/* Writes a new id for a client of this process: 72 random bits, 24 of the process number, 32 of the
 * host's address, as hexadecimal digits. Every token of the client's holds begins with it. */
void identity_make(char id_out[LOCK_RANDOM_SIZE]);

/* Fills in the process and the host of the status from its holder, if that begins with an id. */
void identity_read(struct seclock_status *status);

#endif
