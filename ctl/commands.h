/* The table of commands, and the help made from it. */
#ifndef SECKILL_CTL_COMMANDS_H
#define SECKILL_CTL_COMMANDS_H

#include <stdio.h>

#include "ctl/context.h"

/* The pods that a command asks, if there are several and --pod names none. */
enum command_pods {
    PODS_OFFLINE,    /* no configuration and no daemon */
    PODS_FIRST,      /* the first one */
    PODS_OF_SKU,     /* the one that has a sale of the first argument */
    PODS_OF_NEW_SKU, /* likewise; the first one if no pod has it */
    PODS_OF_ORDER,   /* the one that the order id, the first argument, names */
    PODS_EACH,       /* each in turn */
    PODS_ITSELF,     /* the command chooses out of the context's pods */
};

struct command {
    const char *name;
    const char *arguments; /* as the help shows them; "" without any */
    size_t min, max;       /* how many arguments */
    uint32_t options;      /* beside OPTIONS_OF_ALL */
    enum command_pods pods;
    const char *help; /* one sentence */
    int (*run)(struct context *context);
};

/* NULL after a message if there is no command of this name. */
const struct command *commands_find(const char *name);

/* True if the arguments and options fit the command; else a message says why not. */
bool commands_check(const struct command *command, const struct options *options);

/* Prints the help of the command, of all for NULL; EX_USAGE after a message if there is none. */
int commands_help(const char *name, FILE *out);

#endif
