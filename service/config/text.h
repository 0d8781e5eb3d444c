/* The texts that options come as: small files, and what may stand in them. */
#ifndef SECKILL_SERVICE_CONFIG_TEXT_H
#define SECKILL_SERVICE_CONFIG_TEXT_H

#include <stdbool.h>

#define CONFIG_FILE_MAX 65536 /* bytes of a file */

/* The whole file, ended by NUL, for the caller to free; NULL with the reason in *reason_out. */
char *text_read_file(const char *path, const char **reason_out);

/* The text without white space at both ends; a NUL overwrites what follows its last character. */
char *text_trim(char *text);

/* Whether all characters are visible ASCII; a space is not. True for an empty text. */
bool text_visible(const char *text);

#endif
