/* Checks texts against the alphabets of identifiers and of user ids. */
#include "base/identifier.h"

#include <string.h>

const bool identifier_alphabet[256] = {
    ['-'] = true,         ['.'] = true, ['0' ... '9'] = true, [':'] = true,
    ['A' ... 'Z'] = true, ['_'] = true, ['a' ... 'z'] = true,
};

bool identifier_valid(const char *text, size_t length)
{
    if (length == 0 || length >= IDENTIFIER_SIZE)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!identifier_alphabet[(unsigned char)text[i]])
            return false;
    return true;
}

static bool copy(bool valid, const char *text, size_t length, char *out)
{
    if (valid)
        memcpy(out, text, length);
    out[valid ? length : 0] = '\0';
    return valid;
}

bool identifier_copy(const char *text, size_t length, char identifier_out[IDENTIFIER_SIZE])
{
    return copy(identifier_valid(text, length), text, length, identifier_out);
}

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
    return copy(user_id_valid(text, length), text, length, user_id_out);
}
