/* The alphabet of skus, idempotency keys and the like: [A-Za-z0-9._:-]{1,64}. Such a text
 * needs no escapes in JSON, in SQL between quotes, or in a Redis key. Any thread. */
#ifndef BASE_IDENTIFIER_H
#define BASE_IDENTIFIER_H

#include <stdbool.h>
#include <stddef.h>

enum { IDENTIFIER_SIZE = 65 }; /* bytes of the longest one, with its NUL */

/* One entry per byte: true for those of the alphabet. */
extern const bool identifier_alphabet[256];

/* True when the text is an identifier; a NUL within `length` makes it none. */
bool identifier_valid(const char *text, size_t length);

/* Copies an identifier with a NUL behind it; false and an empty `identifier_out` when the text is
 * none. */
bool identifier_copy(const char *text, size_t length, char identifier_out[IDENTIFIER_SIZE]);

#endif
