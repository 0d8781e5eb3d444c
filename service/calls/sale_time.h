/* A moment in a request, as RFC 3339 writes it. */
#ifndef SECKILL_SERVICE_CALLS_SALE_TIME_H
#define SECKILL_SERVICE_CALLS_SALE_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a date-time of RFC 3339 as ms since 1970: 2026-11-20T21:30:00Z, with an offset like
 * 2026-11-21T05:30:00.5+08:00, with any number of digits of a second's fraction, of which those
 * behind the ms are cut off; t and z may be small. The offset -00:00 is UTC. A leap second,
 * 23:59:60 in UTC on the last day of a month, is the moment at its end, whatever its fraction,
 * because clocks have no number for it. False for other texts and for moments before the year 2000
 * or after 9999 in UTC. Any thread. */
bool sale_time_parse(const char *text, size_t length, int64_t *ms_out);

#endif
