/* The configuration: every option's value, read from its sources and checked. */
#ifndef SECKILL_SERVICE_CONFIG_CONFIG_H
#define SECKILL_SERVICE_CONFIG_CONFIG_H

#include <stdio.h>

#include "service/config/options.h"

enum config_result {
    CONFIG_OK,   /* every field is set and valid */
    CONFIG_EXIT, /* --help, --help-config or --version was printed to out: exit 0 */
    CONFIG_BAD,  /* the reason was printed to err: exit 2 */
};

/* Reads the options: defaults, then the file (--config FILE or SECKILL_CONFIG), then the
 * environment, then the flags; each overrides the previous. The last of several equal flags wins;
 * two lines of a file for one option are an error.
 *
 * argv and envp end in NULL like main's and are not kept. A message names the option, its origin,
 * its value (passwords masked) and what is allowed; there may be several. The content of token
 * files ends up in admin_token and shop_token, separated by commas. After CONFIG_EXIT and
 * CONFIG_BAD the struct is all zeros. One thread at a time. */
enum config_result config_load(struct config *config, char **argv, char **envp, FILE *out,
                               FILE *err);

/* Writes the options as `name=value name=value …` for a log line, without secrets: passwords in
 * URLs and tokens are written as ***. Cut to size - 1 bytes, ended by NUL; returns the whole
 * length, like snprintf. */
size_t config_print(const struct config *config, char *buffer, size_t size);

/* Sets the log's level, format and priorities, on standard error. Main thread. */
void config_setup_log(const struct config *config);

/* Logs all options (event `starting`). */
void config_log(const struct config *config);

/* Frees the texts and sets everything to zero. Harmless when repeated. */
void config_free(struct config *config);

#endif
