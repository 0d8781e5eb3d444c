/* Private to lock/: random numbers for pauses, random text for ids. */
#ifndef LOCK_RANDOM_H
#define LOCK_RANDOM_H

/* A uniform random number below bound > 0, good enough for jitter. Any thread. */
unsigned lock_random(unsigned bound);

/* 128 random bits as 32 hexadecimal digits and a NUL. */
enum { LOCK_RANDOM_SIZE = 33 };
void lock_random_text(char text_out[LOCK_RANDOM_SIZE]);

/* Sleeps for a random time of 1 ms to `most_ms`, so that callers that collided do so no more. */
void lock_random_pause(unsigned most_ms);

#endif
