/* seckillctl completion: what shells complete, made from the table of commands. */
#ifndef SECKILL_CTL_COMPLETION_H
#define SECKILL_CTL_COMPLETION_H

#include <stdio.h>

#include "ctl/command.h"

void completion_bash(const struct command *commands, size_t count, FILE *out);
void completion_zsh(const struct command *commands, size_t count, FILE *out);

#endif
