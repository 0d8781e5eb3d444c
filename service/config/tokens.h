/* The tokens that callers show: several at once, replaced while the daemon runs. */
#ifndef SECKILL_SERVICE_CONFIG_TOKENS_H
#define SECKILL_SERVICE_CONFIG_TOKENS_H

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

struct config;
struct tokens;

/* Which calls a token is for. */
enum token_class { TOKENS_ADMIN, TOKENS_SHOP, TOKEN_CLASSES };

/* Takes the tokens out of the configuration, which must outlive them. */
struct tokens *tokens_open(const struct config *config);

/* Frees them after all threads have ended; NULL is fine. */
void tokens_close(struct tokens **tokens);

/* Writes a warning to the log for what stands open or shut: no admin token, which refuses all admin
 * calls, and no shop token while others than this machine may connect to `listen`, the address that
 * is served. */
void tokens_warn(const struct config *config, const char *listen);

/* Reads the files of tokens again. A file that cannot be read, or holds something else than tokens,
 * changes nothing; the log says why. Tokens that are no file's stay. False when a file failed. Any
 * thread. */
bool tokens_reload(struct tokens *tokens);

/* Whether calls of the class need a token: admin's always, the shop's when there is one. Any
 * thread. */
bool tokens_wanted(const struct tokens *tokens, enum token_class class);

/* Whether `given` is one of the class' tokens; takes a time that depends on the length of `given`
 * and on the number of tokens alone. Any thread. */
bool tokens_match(struct tokens *tokens, enum token_class class, const char *given);

#endif
