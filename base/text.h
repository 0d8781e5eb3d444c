/* Helpers for many short texts a second: decimal digits without printf, and FNV-1a (Fowler, Noll,
 * Vo) as the hash of our own tables. Any thread may call each function. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { DECIMAL_DIGITS_MAX = 20 }; /* of UINT64_MAX */

/* Writes the number's digits, up to DECIMAL_DIGITS_MAX and no NUL, and returns where they end. */
char *decimal_put(char *at, uint64_t number);

/* The 64-bit hash of a text that ends with a NUL. A client that chooses the texts can make many of
 * them collide: use it where a collision costs no more than a slow look-up. */
uint64_t hash_text(const char *text);

/* The text's slot in a table of `count` > 0. */
size_t hash_slot(const char *text, size_t count);

/* The slot of an object's address in a table of `count` > 0. */
size_t hash_address_slot(const void *object, size_t count);

#endif
