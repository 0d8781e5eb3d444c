/* A line of the log as a JSON object. */
#ifndef SECKILL_SERVICE_LOG_LOG_JSON_H
#define SECKILL_SERVICE_LOG_LOG_JSON_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes `KEY=VALUE …`, as log_event makes it, to `out` as one JSON object without a newline or
 * NUL, and returns its length. The result is valid JSON in UTF-8 whatever bytes the values hold:
 * bytes that are no UTF-8 become U+FFFD. Values are texts, but for numbers, true and false that
 * are not quoted; some keys are always texts (see text_keys), so that a key has one type. What does
 * not fit is left out, and "truncated":true is the last member then, as when `cut` says that the
 * line has lost its end before. `size`: at least LOG_JSON_MIN. Any thread.
 */
size_t log_json(const char *line, size_t length, bool cut, char *out, size_t size);

enum { LOG_JSON_MIN = 32 };

#endif
