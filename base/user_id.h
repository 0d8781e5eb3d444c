/* The alphabet of user ids: 1 to 128 printable ASCII characters without the blank, so that e-mail
 * addresses and phone numbers are user ids. Every byte counts, capital letters and signs included.
 *
 * The blank is left out because the ledger's columns pad: "u" and "u " would be one user there.
 * Unlike an identifier, a user id needs escapes in JSON, SQL and CSV (" ' \ , among others); in
 * Redis it is only ever a field or a value, never a part of a key. */
#ifndef BASE_USER_ID_H
#define BASE_USER_ID_H

#include <stdbool.h>
#include <stddef.h>

enum { USER_ID_SIZE = 129 }; /* bytes of the longest one, with its NUL */

#define USER_ID_FORM "1 to 128 printable ASCII characters without blanks"

/* True when the text is a user id; a NUL within `length` makes it none. Any thread, as below. */
bool user_id_valid(const char *text, size_t length);

/* Copies a user id with a NUL behind it; false and an empty `user_id_out` when the text is none. */
bool user_id_copy(const char *text, size_t length, char user_id_out[USER_ID_SIZE]);

#endif
