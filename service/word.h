/* The alphabet of skus, user ids and idempotency keys. */
#ifndef SECKILL_SERVICE_WORD_H
#define SECKILL_SERVICE_WORD_H

#include <stdbool.h>
#include <stddef.h>

/* True when the text is [A-Za-z0-9._:-]{1,64}. */
bool word_valid(const char *text, size_t length);

/* Copies such a text with a NUL behind it; false and an empty `out` when it is not one. `out` has
 * room for LEDGER_IDENTIFIER_SIZE bytes. */
bool word_copy(const char *text, size_t length, char *out);

#endif
