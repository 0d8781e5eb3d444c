/* The alphabets of identifiers and of user ids. Any thread may call each function. */
#ifndef BASE_IDENTIFIER_H
#define BASE_IDENTIFIER_H

#include <stdbool.h>
#include <stddef.h>

/* A sku, an idempotency key and the like: [A-Za-z0-9._:-]{1,64}. Such a text needs no escapes in
 * JSON, in SQL between quotes, or in a Redis key. */
enum { IDENTIFIER_SIZE = 65 }; /* bytes of the longest one, with its NUL */

/* One entry per byte: true for a byte of the alphabet. */
extern const bool identifier_alphabet[256];

/* True when the text is an identifier. A NUL within `length` makes it invalid. */
bool identifier_valid(const char *text, size_t length);

/* Copies an identifier and appends a NUL; false, with "" as the result, if invalid. */
bool identifier_copy(const char *text, size_t length, char identifier_out[IDENTIFIER_SIZE]);

/* A user id: 1 to 128 printable ASCII characters without the blank, so that e-mail addresses and
 * phone numbers are user ids. Every byte counts, capital letters and signs included.
 *
 * The blank is left out because the ledger's columns pad: "u" and "u " would be one user there.
 * Unlike an identifier, a user id needs escapes in JSON, SQL and CSV (" ' \ , among others); in
 * Redis it is only ever a field or a value, never a part of a key. */
enum { USER_ID_SIZE = 129 }; /* bytes of the longest one, with its NUL */

#define USER_ID_FORM "1 to 128 printable ASCII characters without blanks"

/* Do as identifier_valid and identifier_copy. */
bool user_id_valid(const char *text, size_t length);
bool user_id_copy(const char *text, size_t length, char user_id_out[USER_ID_SIZE]);

#endif
