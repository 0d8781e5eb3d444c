/* Configures the daemons' addresses and tokens: reads the file, then the environment. */
#ifndef SECKILL_CTL_CONFIG_H
#define SECKILL_CTL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

enum {
    PODS_MAX = 16,      /* as many as an order id can name */
    DAEMONS_MAX = 16,   /* addresses of a pod */
    ADDRESS_SIZE = 256, /* bytes of an address, with its NUL */
    TOKEN_SIZE = 257,   /* bytes of a token, with its NUL */
};

/* X(ID, name in the file, name in the environment, meaning) */
#define CTL_SETTINGS(X)                                                                            \
    X(ADMIN, "admin", "SECKILLCTL_ADMIN",                                                          \
      "where daemons serve operators: addresses, separated by blanks; pods by ;")                  \
    X(SHOP, "shop", "SECKILLCTL_SHOP",                                                             \
      "where a daemon or a proxy serves shops and buyers; as admin unless set")                    \
    X(ADMIN_TOKEN, "admin_token", "SECKILLCTL_ADMIN_TOKEN", "the token of operators")              \
    X(ADMIN_TOKEN_FILE, "admin_token_file", "SECKILLCTL_ADMIN_TOKEN_FILE",                         \
      "a file whose first line is the token of operators")                                         \
    X(SHOP_TOKEN, "shop_token", "SECKILLCTL_SHOP_TOKEN", "the token of the shop")                  \
    X(SHOP_TOKEN_FILE, "shop_token_file", "SECKILLCTL_SHOP_TOKEN_FILE",                            \
      "a file whose first line is the token of the shop")

#define CTL_SETTING_ID(id, name, variable, help) SETTING_##id,
enum setting { CTL_SETTINGS(CTL_SETTING_ID) SETTING_COUNT };
#undef CTL_SETTING_ID

/* http://host:port, https://host:port, host:port, unix:/path or /path. */
struct address {
    char shown[ADDRESS_SIZE];  /* as messages name it */
    char base[ADDRESS_SIZE];   /* "http://host:port", to which a path is added */
    char socket[ADDRESS_SIZE]; /* of a Unix socket; else empty */
};

/* A ledger with its daemons. */
struct pod {
    struct address admin[DAEMONS_MAX];
    size_t admin_count;
};

struct config {
    struct pod pods[PODS_MAX]; /* by their numbers */
    size_t pod_count;          /* 1 at least */
    size_t pod;                /* the pod that calls go to, see config_use_pod */
    const struct address *admin;
    size_t admin_count;
    const struct address *shop;
    struct address proxy;         /* from the setting `shop`; `shown` is empty without it */
    char admin_token[TOKEN_SIZE]; /* empty: not set */
    char shop_token[TOKEN_SIZE];
};

/* Reads the file, `path` or ~/.config/seckillctl ($XDG_CONFIG_HOME), which may be missing unless
 * `path` names it, then the environment. False after a message, which never shows a token. */
bool config_load(struct config *config_out, const char *path);

/* Sets `admin` and `shop` to those of this pod; config_load chooses pod 0. */
void config_use_pod(struct config *config, size_t pod);

/* Reads one address; false if the text is not one. */
bool address_parse(const char *text, struct address *address_out);

/* The table above. */
extern const struct setting_row {
    const char *name, *variable, *help;
} setting_rows[SETTING_COUNT];

#endif
