/* The commands. Each returns the exit status, see EXIT STATUS in seckillctl(1). */
#ifndef SECKILL_CTL_COMMANDS_COMMANDS_H
#define SECKILL_CTL_COMMANDS_COMMANDS_H

#include <jansson.h>

#include "ctl/context.h"

typedef int command_run(struct context *context);

/* Commands that show; top until q or a signal, and without a terminal --count frames. */
command_run status_run, top_run, sales_run, sales_stock, orders_one, orders_of_user, payments_run,
    export_run;

/* Commands that change a sale; settings_one is for the one that the command is named after. */
command_run round_create, round_reset, round_restock, round_retire, settings_pause, settings_resume,
    settings_window, settings_one;

/* Commands that change an order. */
command_run orders_payment_end, orders_extend;

/* Commands that compare. */
command_run audit_run, reconcile_run;

/* Commands for daemons, and for files of tokens; no token is ever printed. */
command_run process_log_level, process_drain, token_run;

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
