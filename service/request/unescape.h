/* Percent-decoding of paths and parameters. */
#ifndef SECKILL_SERVICE_REQUEST_UNESCAPE_H
#define SECKILL_SERVICE_REQUEST_UNESCAPE_H

#include <stddef.h>

/* Decodes %XX in place and returns the length. What no path and no value of ours has becomes
 * UNESCAPE_BAD, which every check refuses: a NUL, which would cut the text short; a % without two
 * digits behind it; and a control character that stands for another below.
 *
 * A slash that was encoded becomes UNESCAPE_SLASH, so that it is a part of a name and never ends
 * one. unescape_slashes makes it a slash again, for whoever takes a name that may have one. */
enum { UNESCAPE_BAD = 1, UNESCAPE_SLASH = 2 };
size_t unescape(char *text);

/* Writes the `length` bytes with slashes in place of UNESCAPE_SLASH; no NUL behind them. */
void unescape_slashes(const char *text, size_t length, char *out);

#endif
