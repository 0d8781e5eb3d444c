/* Writes unsigned numbers without printf, for texts of which there are many per second. */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

#include <stdint.h>

enum { DECIMAL_DIGITS_MAX = 20 }; /* of UINT64_MAX */

/* Writes the number's digits, up to DECIMAL_DIGITS_MAX and no NUL, and returns where they end. Any
 * thread. */
char *decimal_put(char *at, uint64_t number);

#endif
