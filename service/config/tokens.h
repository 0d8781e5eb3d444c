/* The tokens that callers present: several at once, replaceable while the daemon runs. */
#ifndef SECKILL_SERVICE_CONFIG_TOKENS_H
#define SECKILL_SERVICE_CONFIG_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SECRETS_MAX = 8,  /* of a list */
    SECRET_MAX = 256, /* bytes of one secret */
    SECRETS_TEXT_SIZE = SECRETS_MAX * (SECRET_MAX + 1),
};

struct secrets {
    size_t count;
    char list[SECRETS_MAX][SECRET_MAX + 1];
};

/* Reads secrets separated by commas; "" for none. Each has 1 to SECRET_MAX visible ASCII
 * characters. False when the text is not such a list; then `secrets_out` is empty. */
bool secrets_parse(const char *text, struct secrets *secrets_out);

/* Reads a file of one or more secrets, one a line; blank lines and spaces around a secret are
 * ignored, commas are not allowed. Writes them to `text_out`, separated by commas. False with the
 * reason, a constant text. */
bool secrets_read_file(const char *path, char text_out[SECRETS_TEXT_SIZE], const char **reason_out);

struct config;
struct tokens;

/* The class of calls that a token is for. */
enum token_class { TOKENS_ADMIN, TOKENS_SHOP, TOKEN_CLASSES };

/* Takes the tokens from the configuration, which must outlive them. */
struct tokens *tokens_open(const struct config *config);

/* Frees them after all threads have ended; NULL is fine. */
void tokens_close(struct tokens **tokens);

/* Logs a warning when there is no admin token, so that all admin calls are refused, and when there
 * is no shop token although other machines may connect to `listen`, the served address. */
void tokens_warn(const struct config *config, const char *listen);

/* Reads the token files again. A file that cannot be read, or does not hold tokens, changes
 * nothing; the log says why. Tokens that are not from files stay. False when a file failed. Any
 * thread. */
bool tokens_reload(struct tokens *tokens);

/* True when calls of the class need a token: admin's always, the shop's when there is one. Any
 * thread. */
bool tokens_wanted(const struct tokens *tokens, enum token_class class);

/* True when `given` is one of the class' tokens. The time taken depends only on the length of
 * `given` and the number of tokens. Any thread. */
bool tokens_match(struct tokens *tokens, enum token_class class, const char *given);

#endif
