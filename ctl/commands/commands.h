/* The commands. Each returns the exit status, see EXIT STATUS in seckillctl(1). */
#ifndef SECKILL_CTL_COMMANDS_COMMANDS_H
#define SECKILL_CTL_COMMANDS_COMMANDS_H

#include <jansson.h>

#include "ctl/context.h"

/* Commands that show. */
int status_run(struct context *context);
int top_run(struct context *context); /* until q or a signal; without a terminal --count frames */
int sales_run(struct context *context);
int sales_stock(struct context *context);
int orders_one(struct context *context);
int orders_of_user(struct context *context);
int payments_run(struct context *context);
int export_run(struct context *context);

/* Commands that change a sale. */
int round_create(struct context *context);
int round_reset(struct context *context);
int round_restock(struct context *context);
int round_retire(struct context *context);
int settings_pause(struct context *context);
int settings_resume(struct context *context);
int settings_window(struct context *context);
int settings_one(struct context *context); /* the one that the command is named after */

/* Commands that change an order. */
int orders_payment_end(struct context *context);
int orders_extend(struct context *context);

/* Commands that compare. */
int audit_run(struct context *context);
int reconcile_run(struct context *context);

/* Commands for daemons, and for files of tokens; no token is ever printed. */
int process_log_level(struct context *context);
int process_drain(struct context *context);
int token_run(struct context *context);

/* ---- what commands share ---- */

enum { TOKEN_BYTES = 24 };

/* Writes random bytes in hexadecimal digits. False after a message. */
bool token_make(char out[2 * TOKEN_BYTES + 1]);

/* Adds the settings that options name to a body. False after a message. */
bool settings_add(const struct options *options, json_t *body);

/* Reads TIME: "none", "now", "+30m" from now (s, m, h, d), or a time with its offset from UTC.
 * Returns a new JSON value, the time in UTC, NULL if the text is anything else. */
#define SETTINGS_TIME "a time with its offset like 2026-11-20T21:30:00+08:00, in UTC ...T13:30:00Z"
json_t *settings_time(const char *text, int64_t now_ms);

struct listing {
    const char *sku;    /* only this sale's orders; NULL: of all */
    const char *status; /* only such orders; NULL: all */
    const char *after;  /* only orders after this id; NULL: all */
    /* Takes one order, whose texts are printable ASCII. EX_IOERR ends the walk. */
    int (*take)(void *argument, const json_t *order);
    void *argument;
};

/* Walks the orders of the present pod in the order of their ids, each once. EX_OK when `take` has
 * got them all, EX_IOERR when it has ended the walk; else the exit status, after a message that
 * says where the walk ended. */
int listing_walk(struct context *context, struct listing *listing);

#endif
