/* The alphabet of user ids. */
#include "base/user_id.h"

#include <string.h>

bool user_id_valid(const char *text, size_t length)
{
    if (length == 0 || length >= USER_ID_SIZE)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return true;
}

bool user_id_copy(const char *text, size_t length, char user_id_out[USER_ID_SIZE])
{
    bool valid = user_id_valid(text, length);
    if (valid)
        memcpy(user_id_out, text, length);
    user_id_out[valid ? length : 0] = '\0';
    return valid;
}
