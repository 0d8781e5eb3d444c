/* Writes decimal digits without printf, and hashes short texts. */
#include "base/text.h"

#include <assert.h>
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

uint64_t hash_text(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash;
}

size_t hash_slot(const char *text, size_t count)
{
    assert(count > 0);
    uint64_t hash = hash_text(text);
    /* The lowest bits depend only on the lowest bits of each byte, so the upper half is folded in,
     * as the authors advise for tables. */
    return (size_t)((hash ^ hash >> 32) % count);
}

/* Multiplied by 2^64 over the golden ratio, an address spreads over the upper bits (Knuth). */
size_t hash_address_slot(const void *object, size_t count)
{
    assert(count > 0);
    return (size_t)(((uintptr_t)object * UINT64_C(11400714819323198485) >> 32) % count);
}
