/* Percent-decoding of paths and parameters. */
#ifndef SECKILL_SERVICE_REQUEST_UNESCAPE_H
#define SECKILL_SERVICE_REQUEST_UNESCAPE_H

#include <stddef.h>

/* Decodes %XX in place and returns the length. Bytes that no path and no value may contain become
 * UNESCAPE_BAD, which every check refuses: a NUL, which would cut the text short; a % without two
 * digits behind it; and a byte equal to one of these marks.
 *
 * An encoded slash becomes UNESCAPE_SLASH, so that it is part of a name and never ends it. Code
 * that takes a name with slashes calls unescape_slashes to restore them. */
enum { UNESCAPE_BAD = 1, UNESCAPE_SLASH = 2 };
size_t unescape(char *text);

/* Copies `length` bytes with slashes in place of UNESCAPE_SLASH; adds no NUL. */
void unescape_slashes(const char *text, size_t length, char *out);

#endif
