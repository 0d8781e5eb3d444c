/* Reads the command line by a table of options. */
#include "ctl/options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/say.h"

#define CTL_OPTION_ROW(id, name, value, help) {name, value, help},
const struct option_row option_rows[OPTION_COUNT] = {CTL_OPTIONS(CTL_OPTION_ROW)};
#undef CTL_OPTION_ROW

static_assert(OPTION_COUNT <= 64, "a set of options has 64 bits");

/* The value that getopt returns for the first option; the others follow. No character has it. */
enum { FIRST_OPTION = 256 };

/* With '?', optopt names the option that was given a value although it takes none. */
static bool complain(int found, const char *word)
{
    if (found == ':')
        return REFUSE(false, "%s needs a value", word);
    if (optopt >= FIRST_OPTION)
        return REFUSE(false, "--%s takes no value", option_rows[optopt - FIRST_OPTION].name);
    return REFUSE(false, "there is no option %s; seckillctl help lists all", word);
}

static bool take_option(struct options *options, enum ctl_option option, const char *value)
{
    if (options->given_count == GIVEN_MAX)
        return REFUSE(false, "more than %d options", GIVEN_MAX);
    options->values[option] = value ? value : option_rows[option].name;
    options->given[options->given_count].option = option;
    options->given[options->given_count++].value = options->values[option];
    return true;
}

bool options_read(struct options *options_out, int argc, char **argv)
{
    struct option longs[OPTION_COUNT + 1] = {{.name = NULL}};
    *options_out = (struct options){.argument_count = 0};
    for (int i = 0; i < OPTION_COUNT; i++)
        longs[i] = (struct option){option_rows[i].name,
                                   option_rows[i].value ? required_argument : no_argument, NULL,
                                   FIRST_OPTION + i};
    optind = 0; /* begin again: tests read several command lines */
    opterr = 0;
    int found;
    while ((found = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
        if (found == ':' || found == '?')
            return complain(found, argv[optind - 1]);
        int number = found == 'h' ? OPTION_HELP : found - FIRST_OPTION;
        if (!take_option(options_out, (enum ctl_option)number, optarg))
            return false;
    }
    for (; optind < argc; optind++) {
        if (options_out->argument_count == ARGUMENTS_MAX)
            return REFUSE(false, "more than %d arguments", ARGUMENTS_MAX);
        options_out->arguments[options_out->argument_count++] = argv[optind];
    }
    return true;
}

uint64_t options_given(const struct options *options)
{
    uint64_t given = 0;
    for (int i = 0; i < OPTION_COUNT; i++)
        if (options->values[i])
            given |= UINT64_C(1) << i;
    return given;
}

bool number_parse(const char *text, int64_t min, int64_t max, int64_t *number_out)
{
    char *end = NULL;
    if (strspn(text, "0123456789") != strlen(text) || *text == '\0')
        return false;
    errno = 0;
    *number_out = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0' && *number_out >= min && *number_out <= max;
}

bool options_number(const struct options *options, enum ctl_option option, int64_t min, int64_t max,
                    int64_t otherwise, int64_t *number_out)
{
    const char *text = options->values[option];
    *number_out = otherwise;
    if (!text || number_parse(text, min, max, number_out))
        return true;
    return REFUSE(false, "--%s must be a whole number from %lld to %lld", option_rows[option].name,
                  (long long)min, (long long)max);
}
