/* seckillctl pause, resume, window, limit, pay-within: a sale's settings in mid-sale. */
#ifndef SECKILL_CTL_COMMANDS_SETTINGS_H
#define SECKILL_CTL_COMMANDS_SETTINGS_H

#include <jansson.h>

#include "ctl/context.h"

/* Adds the settings that options name to a body. False after a message. */
bool settings_add(const struct options *options, json_t *body);

/* Reads TIME: "none", "now", "+30m" from now (s, m, h, d), or a time in UTC as the service takes
 * it. A new JSON value, NULL if the text is anything else. */
json_t *settings_time(const char *text, int64_t now_ms);

#endif
