/* The table of all options of the daemon, and their names as flags and variables. */
#include "service/config/options.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

const struct option config_options[OPTION_COUNT] = {
#define OPTION(type, name, initial, detail, min, max, doc)                                         \
    {type, #name, initial, detail, min, max, doc, offsetof(struct config, name)},
    CONFIG_OPTIONS(OPTION)
#undef OPTION
};

void option_write_flag(const char *name, char flag_out[OPTION_NAME_SIZE])
{
    size_t i = 0;
    for (; name[i]; i++)
        flag_out[i] = name[i] == '_' ? '-' : name[i];
    assert(i < OPTION_NAME_SIZE);
    flag_out[i] = '\0';
}

void option_write_variable(const char *name, char variable_out[OPTION_NAME_SIZE])
{
    static const char prefix[] = "SECKILL_";
    size_t length = sizeof prefix - 1;
    memcpy(variable_out, prefix, length);
    for (const char *at = name; *at; at++)
        variable_out[length++] = (char)toupper((unsigned char)*at);
    assert(length < OPTION_NAME_SIZE);
    variable_out[length] = '\0';
}
