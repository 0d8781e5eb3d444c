/* The settings of a sale as JSON: read from a body, written in an answer. */
#ifndef SECKILL_SERVICE_CALLS_SALE_SETTINGS_H
#define SECKILL_SERVICE_CALLS_SALE_SETTINGS_H

#include <jansson.h>

#include "stock/sales/sales.h"

enum {
    PER_USER_LIMIT_MAX = 10000000,    /* units, as many as a sale may have */
    PAY_WITHIN_S_MAX = 30 * 24 * 3600 /* a month */
};

/* Reads a date-time of RFC 3339 as ms since 1970: 2026-11-20T21:30:00Z, with an offset like
 * 2026-11-21T05:30:00.5+08:00, with any number of digits of a second's fraction, of which those
 * behind the ms are cut off; t and z may be small. The offset -00:00 is UTC. A leap second,
 * 23:59:60 in UTC on the last day of a month, is the moment at its end, whatever its fraction,
 * because clocks have no number for it. False for other texts and for moments before the year 2000
 * or after 9999 in UTC. Any thread. */
bool sale_time_parse(const char *text, size_t length, int64_t *ms_out);

/* Reads the members of `object` that are settings; null stands for none. Returns NULL, or what is
 * wrong with one of them. */
const char *sale_settings_read(const json_t *object, struct stock_change *change_out);

/* How many members sale_settings_read found. */
size_t sale_settings_count(const struct stock_change *change);

/* Adds the settings to a sale's object: the ones that are set, whether the sale is paused, and
 * "counting" while its users' units are counted. */
void sale_settings_add(json_t *object, const struct ledger_settings *settings);

/* A sale with its numbers and settings, for the caller to release. */
json_t *sale_json(const struct ledger_sale *sale);

/* Writes the settings that the change sets for the log, " paused=true per_user_limit=3", with
 * "none" for one that is taken away, and gives `out` back. */
enum { SALE_SETTINGS_LOG_SIZE = 192 };
const char *sale_settings_log(const struct stock_change *change, char out[SALE_SETTINGS_LOG_SIZE]);

#endif
