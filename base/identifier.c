/* The alphabets of identifiers and of user ids. */
#include "base/identifier.h"

#include <string.h>

const bool identifier_alphabet[256] = {
    ['-'] = 1, ['.'] = 1, ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1,
    ['6'] = 1, ['7'] = 1, ['8'] = 1, ['9'] = 1, [':'] = 1, ['A'] = 1, ['B'] = 1, ['C'] = 1,
    ['D'] = 1, ['E'] = 1, ['F'] = 1, ['G'] = 1, ['H'] = 1, ['I'] = 1, ['J'] = 1, ['K'] = 1,
    ['L'] = 1, ['M'] = 1, ['N'] = 1, ['O'] = 1, ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1,
    ['T'] = 1, ['U'] = 1, ['V'] = 1, ['W'] = 1, ['X'] = 1, ['Y'] = 1, ['Z'] = 1, ['_'] = 1,
    ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1, ['f'] = 1, ['g'] = 1, ['h'] = 1,
    ['i'] = 1, ['j'] = 1, ['k'] = 1, ['l'] = 1, ['m'] = 1, ['n'] = 1, ['o'] = 1, ['p'] = 1,
    ['q'] = 1, ['r'] = 1, ['s'] = 1, ['t'] = 1, ['u'] = 1, ['v'] = 1, ['w'] = 1, ['x'] = 1,
    ['y'] = 1, ['z'] = 1,
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
