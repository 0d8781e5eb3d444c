/* The values of options: checks them, shows them to the log, and stores them in fields. */
#ifndef SECKILL_SERVICE_CONFIG_VALUE_H
#define SECKILL_SERVICE_CONFIG_VALUE_H

#include <stdio.h>

#include "base/url.h"
#include "service/config/options.h"

/* Prints the option's allowed values, as the end of a sentence. */
void value_print_allowed(FILE *stream, const struct option *option);

/* Writes the value, allowed or not, with *** for every secret in it; cut to size. */
void value_mask(const struct option *option, const char *value, char *masked_out, size_t size);

/* Sets the option's field to a copy of the value. False, with nothing set, when the value is not of
 * the option's kind; then `why_out` is empty or more specific than value_print_allowed. */
bool value_set(struct config *config, const struct option *option, const char *value,
               char why_out[URL_ERROR_SIZE]);

/* True when the option has equal values in both configurations. */
bool value_equal(const struct config *a, const struct config *b, const struct option *option);

/* Exchanges the option's values of two configurations. */
void value_swap(struct config *a, struct config *b, const struct option *option);

/* Writes the option's field as text, with *** for secrets. */
void value_show(const struct config *config, const struct option *option,
                char text_out[CONFIG_VALUE_MAX]);

/* Frees the memory that the option's field owns. */
void value_clear(struct config *config, const struct option *option);

#endif
