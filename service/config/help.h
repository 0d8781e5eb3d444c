/* The help and the reference configuration, made from the table of options. */
#ifndef SECKILL_SERVICE_CONFIG_CONFIG_HELP_H
#define SECKILL_SERVICE_CONFIG_CONFIG_HELP_H

#include <stdio.h>

/* Prints what "--help", "--help-config", "--help-man" or "--version" asks for. */
void help_print(FILE *out, const char *flag);

#endif
