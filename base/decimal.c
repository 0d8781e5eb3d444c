/* Writes unsigned numbers without printf. */
#include "base/decimal.h"

#include <stddef.h>
#include <string.h>

char *decimal_put(char *at, uint64_t number)
{
    char digits[DECIMAL_DIGITS_MAX];
    size_t from = sizeof digits;
    do {
        digits[--from] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    memcpy(at, digits + from, sizeof digits - from);
    return at + (sizeof digits - from);
}
