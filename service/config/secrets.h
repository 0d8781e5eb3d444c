/* Several secrets of equal worth, such as the old and the new token while clients change over. */
#ifndef SECKILL_SERVICE_CONFIG_SECRETS_H
#define SECKILL_SERVICE_CONFIG_SECRETS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SECRETS_MAX = 8,  /* of a list */
    SECRET_MAX = 256, /* bytes of one */
    SECRETS_TEXT_SIZE = SECRETS_MAX * (SECRET_MAX + 1),
};

struct secrets {
    size_t count;
    char list[SECRETS_MAX][SECRET_MAX + 1];
};

/* Reads secrets separated by commas; "" for none. Each is 1 to SECRET_MAX visible ASCII characters.
 * False when the text is no such list; then `secrets_out` has none. */
bool secrets_parse(const char *text, struct secrets *secrets_out);

/* Reads a file that holds one secret a line, at least one; blank lines and spaces around a secret
 * do not count, commas are not allowed. Writes them to `text_out`, separated by commas. False with
 * the reason, a constant text. */
bool secrets_read_file(const char *path, char text_out[SECRETS_TEXT_SIZE], const char **reason_out);

#endif
