/* Texts in a path or a query. */
#ifndef SECKILL_CTL_ENCODE_H
#define SECKILL_CTL_ENCODE_H

#include "base/identifier.h"

enum { ENCODED_USER_SIZE = 3 * USER_ID_SIZE };

/* Encodes a user id: all but letters, digits and a few signs becomes %XX. Returns `out`. */
const char *encode_user(const char *user_id, char out[ENCODED_USER_SIZE]);

#endif
