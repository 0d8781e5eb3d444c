/* Private to lock/: who a client is, as the first part of its id says to everybody who sees a token
 * of its holds. */
#ifndef LOCK_HOLDER_H
#define LOCK_HOLDER_H

#include "lock/random.h"
#include "lock/seclock.h"

/* Writes a new id of this process: 72 random bits, 24 of its number, 32 of the host's address, as
 * hexadecimal digits. */
void holder_id(char id_out[LOCK_RANDOM_SIZE]);

/* Fills in the process and the host of the status from its holder, if that is such a token. */
void holder_find(struct seclock_status *status);

#endif
