/* Every option of the daemon in one table, from which fields, flags, variables and manual come. */
#include "service/config/options.h"

#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { DISTANCE_MAX = 2 }; /* typing errors up to which a name is suggested */

const struct option config_options[OPTION_COUNT] = {
#define OPTION(type, name, initial, detail, min, max, doc)                                         \
    {type, #name, initial, detail, min, max, doc, offsetof(struct config, name)},
    CONFIG_OPTIONS(OPTION)
#undef OPTION
};

/* Old names first: sources.c offers the values in this order, and the present name must win. */
const struct option_name config_option_names[OPTION_NAME_COUNT] = {
#define OLD_NAME(old, present) {#old, OPTION_##present},
    CONFIG_RENAMED(OLD_NAME)
#undef OLD_NAME
#define PRESENT_NAME(type, name, initial, detail, min, max, doc) {#name, OPTION_##name},
        CONFIG_OPTIONS(PRESENT_NAME)
#undef PRESENT_NAME
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

/* Levenshtein's distance, row by row; far more than DISTANCE_MAX for a text that is too long to be
 * a name. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[OPTION_NAME_SIZE + 1]; /* row[j]: from the first i characters of a to j of b */
    size_t width = strlen(b);
    if (strlen(a) > OPTION_NAME_SIZE || width > OPTION_NAME_SIZE)
        return SIZE_MAX;
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            size_t best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (diagonal + 1 < best)
                best = diagonal + 1;
            row[j + 1] = best;
        }
    }
    return row[width];
}

void option_suggest(struct option_suggestion *suggestion, const char *name)
{
    size_t distance = edit_distance(suggestion->wanted, name);
    if (distance <= DISTANCE_MAX && distance < suggestion->distance) {
        suggestion->distance = distance;
        snprintf(suggestion->name, sizeof suggestion->name, "%s", name);
    }
}
