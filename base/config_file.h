/* Reads small files of settings or tokens, and checks their texts. Any thread may call each. */
#ifndef BASE_CONFIG_FILE_H
#define BASE_CONFIG_FILE_H

#include <stdbool.h>

#define CONFIG_FILE_MAX 65536 /* bytes of a file */

/* Returns the whole file, ended by NUL, in CONFIG_FILE_MAX + 1 bytes that the caller frees; NULL
 * with the reason in *reason_out. */
char *text_read_file(const char *path, const char **reason_out);

/* Returns the text without white space at both ends; overwrites the byte after it with NUL. */
char *text_trim(char *text);

/* True when all characters are visible ASCII, which a space is not. True for an empty text. */
bool text_visible(const char *text);

#endif
