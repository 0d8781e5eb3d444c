/* The table of commands, and the help made from it. */
#ifndef SECKILL_CTL_COMMANDS_H
#define SECKILL_CTL_COMMANDS_H

#include <stdio.h>

#include "ctl/command.h"

/* NULL: there is none of this name. */
const struct command *commands_find(const char *name);

/* Whether the arguments and options fit the command; a message says why not. */
bool commands_check(const struct command *command, const struct options *options);

/* The help of all commands, or of one. */
void commands_help(FILE *out);
void commands_help_one(const struct command *command, FILE *out);

#endif
