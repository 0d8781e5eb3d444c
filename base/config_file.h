/* Small files of settings or tokens, and what may stand in them. Any thread may call each. */
#ifndef BASE_CONFIG_FILE_H
#define BASE_CONFIG_FILE_H

#include <stdbool.h>

#define CONFIG_FILE_MAX 65536 /* bytes of a file */

/* The whole file, ended by NUL, in CONFIG_FILE_MAX + 1 bytes that the caller frees; NULL with the
 * reason in *reason_out. */
char *text_read_file(const char *path, const char **reason_out);

/* The text without white space at both ends; a NUL overwrites what follows its last character. */
char *text_trim(char *text);

/* Whether all characters are visible ASCII; a space is not. True for an empty text. */
bool text_visible(const char *text);

#endif
