/* Percent-decoding of paths and parameters. */
#include "service/request/unescape.h"

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

static char mark(int byte)
{
    return byte == '\0' || byte == UNESCAPE_SLASH ? UNESCAPE_BAD : (char)byte;
}

size_t unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        int high = *from == '%' ? digit(from[1]) : -1;
        int low = high >= 0 ? digit(from[2]) : -1;
        if (*from != '%') {
            *to++ = mark(*from);
            continue;
        }
        int byte = low >= 0 ? high * 16 + low : UNESCAPE_BAD;
        *to++ = byte == '/' ? UNESCAPE_SLASH : mark(byte);
        from += low >= 0 ? 2 : 0;
    }
    *to = '\0';
    return (size_t)(to - text);
}

void unescape_slashes(const char *text, size_t length, char *out)
{
    for (size_t i = 0; i < length; i++)
        out[i] = text[i] == UNESCAPE_SLASH ? '/' : text[i];
}
