/* FNV-1a (Fowler, Noll, Vo): a hash for short texts in tables of our own. Whoever chooses the texts
 * can make many of them meet in one slot: fit where that costs no more than a slow look-up. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The 64-bit hash of a text that ends with a NUL. Any thread. */
uint64_t hash_text(const char *text);

/* The text's slot in a table of `count` > 0. */
size_t hash_slot(const char *text, size_t count);

/* The slot of an object's address in a table of `count` > 0. */
size_t hash_address_slot(const void *object, size_t count);

#endif
