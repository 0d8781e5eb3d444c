/* The ledgers that mysql_url lists: one URL, or the shards' in their order. */
#ifndef SECKILL_SERVICE_CONFIG_LEDGERS_H
#define SECKILL_SERVICE_CONFIG_LEDGERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/url.h"
#include "service/config/options.h"

enum { LEDGERS_MAX = 16 };

/* Each URL ends in a NUL within `text`. */
struct ledgers {
    size_t count;
    const char *urls[LEDGERS_MAX];
    char text[CONFIG_VALUE_MAX];
};

/* Cuts a list of mysql:// URLs, separated by blanks, into its URLs. False with the reason, which
 * quotes nothing of the list, when one is none, when two are at one place, or when there are none
 * or more than LEDGERS_MAX. Any thread; the caller owns both. */
bool ledgers_parse(const char *text, struct ledgers *ledgers_out, char why_out[URL_ERROR_SIZE]);

#endif
