/* The table of commands, and the help generated from it. */
#ifndef SECKILL_CTL_COMMANDS_H
#define SECKILL_CTL_COMMANDS_H

#include <stdio.h>

#include "ctl/context.h"

/* The pods that a command asks, if there are several and --pod names none. */
enum command_pods {
    PODS_OFFLINE,    /* no configuration and no daemon */
    PODS_FIRST,      /* the first pod */
    PODS_OF_SKU,     /* the pod with a sale of the first argument */
    PODS_OF_NEW_SKU, /* as PODS_OF_SKU; the first pod if no pod has it */
    PODS_OF_ORDER,   /* the pod in the order id, the first argument */
    PODS_EACH,       /* each in turn */
    PODS_ITSELF,     /* the command chooses from the context's pods */
};

struct command {
    const char *name;
    const char *arguments; /* as the help shows them; "" without any */
    size_t min, max;       /* number of arguments */
    uint64_t options;      /* besides OPTIONS_OF_ALL */
    enum command_pods pods;
    const char *help; /* one sentence */
    int (*run)(struct context *context);
};

/* Returns NULL after a message if there is no command of this name. */
const struct command *commands_find(const char *name);

/* True if the arguments and options fit the command; else a message says why not. */
bool commands_check(const struct command *command, const struct options *options);

/* Prints the command's help, for NULL that of all; EX_USAGE after a message if there is none. */
int commands_help(const char *name, FILE *out);

#endif
