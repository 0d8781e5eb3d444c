/* The tokens that callers present: several at once, replaceable while the daemon runs. */
#include "service/config/tokens.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/config/options.h"
#include "service/config/address.h"
#include "base/config_file.h"
#include "base/memory.h"
#include "service/log/log.h"

/* ---- lists of secrets ---- */

bool secrets_parse(const char *text, struct secrets *secrets_out)
{
    size_t count = 0;
    secrets_out->count = 0;
    if (!text_visible(text))
        return false;
    for (const char *at = text; *text; at++) {
        size_t length = strcspn(at, ",");
        if (length == 0 || length > SECRET_MAX || count == SECRETS_MAX)
            return false;
        memcpy(secrets_out->list[count], at, length);
        secrets_out->list[count++][length] = '\0';
        at += length;
        if (!*at)
            break;
    }
    secrets_out->count = count;
    return true;
}

/* Joins the lines to one list. False when they are not secrets. */
static bool join_lines(char *lines, char text_out[SECRETS_TEXT_SIZE])
{
    char *rest = NULL;
    size_t length = 0;
    struct secrets secrets;
    text_out[0] = '\0';
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        line = text_trim(line);
        if (!*line)
            continue;
        size_t left = SECRETS_TEXT_SIZE - length;
        int written = snprintf(text_out + length, left, "%s%s", length > 0 ? "," : "", line);
        if (strchr(line, ',') || written < 0 || (size_t)written >= left)
            return false;
        length += (size_t)written;
    }
    return length > 0 && secrets_parse(text_out, &secrets);
}

bool secrets_read_file(const char *path, char text_out[SECRETS_TEXT_SIZE], const char **reason_out)
{
    char *lines = text_read_file(path, reason_out);
    if (!lines)
        return false;
    bool good = join_lines(lines, text_out);
    if (!good)
        *reason_out = "the file must hold one line or up to 8 lines, each of 1 to 256 visible "
                      "ASCII characters without spaces and commas";
    free(lines);
    return good;
}

/* ---- the tokens in use ---- */

struct tokens {
    const char *files[TOKEN_CLASSES]; /* the configuration's; "" for none */
    bool wanted[TOKEN_CLASSES];       /* constant: a file of tokens never becomes empty */
    pthread_rwlock_t lock;            /* guards the secrets */
    struct secrets secrets[TOKEN_CLASSES];
};

static const char *const names[TOKEN_CLASSES] = {
    [TOKENS_ADMIN] = "admin",
    [TOKENS_SHOP] = "shop",
};

struct tokens *tokens_open(const struct config *config)
{
    struct tokens *tokens = memory_must(calloc(1, sizeof *tokens));
    tokens->files[TOKENS_ADMIN] = config->admin_token_file;
    tokens->files[TOKENS_SHOP] = config->shop_token_file;
    bool parsed = secrets_parse(config->admin_token, &tokens->secrets[TOKENS_ADMIN]) &&
                  secrets_parse(config->shop_token, &tokens->secrets[TOKENS_SHOP]);
    assert(parsed); /* config_load has checked them with the same function */
    tokens->wanted[TOKENS_ADMIN] = true;
    tokens->wanted[TOKENS_SHOP] = tokens->secrets[TOKENS_SHOP].count > 0;
    pthread_rwlock_init(&tokens->lock, NULL);
    return tokens;
}

void tokens_close(struct tokens **tokens)
{
    if (!*tokens)
        return;
    pthread_rwlock_destroy(&(*tokens)->lock);
    explicit_bzero((*tokens)->secrets, sizeof(*tokens)->secrets);
    free(*tokens);
    *tokens = NULL;
}

void tokens_warn(const struct config *config, const char *listen)
{
    struct endpoint endpoint;
    if (config->admin_token[0] == '\0')
        log_event(LOG_WARN, "admin_token_empty", "effect=%s",
                  LOG_QUOTE("all calls of /admin/ are refused"));
    if (config->shop_token[0] == '\0' && endpoint_parse(listen, &endpoint) &&
        !endpoint_is_loopback(&endpoint))
        log_event(LOG_WARN, "shop_calls_open", "listen=%s effect=%s", LOG_QUOTE(listen),
                  LOG_QUOTE("whoever connects may pay and cancel, and read a user's orders"));
}

static bool reload_class(struct tokens *tokens, enum token_class class)
{
    char text[SECRETS_TEXT_SIZE];
    struct secrets secrets;
    const char *path = tokens->files[class], *reason = NULL;
    if (path[0] == '\0')
        return true;
    if (!secrets_read_file(path, text, &reason)) {
        log_event(LOG_ERROR, "tokens_not_reloaded", "class=%s file=%s error=%s effect=%s",
                  names[class], LOG_QUOTE(path), LOG_QUOTE(reason),
                  LOG_QUOTE("the tokens that the daemon knows stay valid"));
        return false;
    }
    bool parsed = secrets_parse(text, &secrets);
    assert(parsed); /* the text is the one that secrets_read_file has joined */
    pthread_rwlock_wrlock(&tokens->lock);
    tokens->secrets[class] = secrets;
    pthread_rwlock_unlock(&tokens->lock);
    log_event(LOG_INFO, "tokens_reloaded", "class=%s tokens=%zu", names[class], secrets.count);
    return true;
}

bool tokens_reload(struct tokens *tokens)
{
    bool good = true;
    for (int class = 0; class < TOKEN_CLASSES; class ++)
        good = reload_class(tokens, (enum token_class) class) && good;
    return good;
}

bool tokens_wanted(const struct tokens *tokens, enum token_class class)
{
    return tokens->wanted[class];
}

/* Compares in a time that reveals at most the token's length. */
static bool equal(const char *given, size_t given_length, const char *token)
{
    size_t length = strlen(token);
    unsigned difference = given_length != length;
    for (size_t i = 0; i < given_length; i++)
        difference |= (unsigned)(unsigned char)(given[i] ^ token[i % length]);
    return difference == 0;
}

/* Compares all tokens even after a match, so that the time does not reveal which one matched. */
bool tokens_match(struct tokens *tokens, enum token_class class, const char *given)
{
    bool match = false;
    size_t length = strlen(given);
    pthread_rwlock_rdlock(&tokens->lock);
    const struct secrets *secrets = &tokens->secrets[class];
    for (size_t i = 0; i < secrets->count; i++)
        match |= equal(given, length, secrets->list[i]);
    pthread_rwlock_unlock(&tokens->lock);
    return match;
}
