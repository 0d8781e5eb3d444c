/* Texts in a path or a query. */
#include "ctl/encode.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/identifier.h"

const char *encode_user(const char *user_id, char out[ENCODED_USER_SIZE])
{
    char *to = out;
    assert(strlen(user_id) < USER_ID_SIZE);
    *to = '\0';
    for (const char *from = user_id; *from; from++)
        to += identifier_alphabet[(unsigned char)*from]
                  ? sprintf(to, "%c", *from)
                  : sprintf(to, "%%%02X", (unsigned char)*from);
    return out;
}
