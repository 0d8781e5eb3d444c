/* What a command is: a row of the table in commands.c. */
#ifndef SECKILL_CTL_COMMAND_H
#define SECKILL_CTL_COMMAND_H

#include "ctl/context.h"

struct command {
    const char *name;
    const char *arguments; /* as the help shows them; "" for none */
    size_t min, max;       /* how many arguments */
    uint32_t options;      /* beside OPTIONS_OF_ALL */
    bool offline;          /* needs no configuration and no daemon */
    const char *help;      /* one sentence */
    int (*run)(struct context *context);
};

#endif
