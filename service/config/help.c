/* Options as people read them: their names, the help, the reference configuration. */
#include "service/config/config_private.h"

#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <string.h>

#define DISTANCE_MAX 2 /* typing errors up to which a name is suggested */
#define TEXT_WIDTH 96

/* ---- names ---- */

void config_write_flag(const struct option *option, char name_out[NAME_MAX_LENGTH])
{
    size_t i = 0;
    for (; option->name[i]; i++)
        name_out[i] = option->name[i] == '_' ? '-' : option->name[i];
    assert(i < NAME_MAX_LENGTH);
    name_out[i] = '\0';
}

void config_write_variable(const struct option *option, char name_out[NAME_MAX_LENGTH])
{
    static const char prefix[] = "SECKILL_";
    size_t length = sizeof prefix - 1;
    memcpy(name_out, prefix, length);
    for (const char *at = option->name; *at; at++)
        name_out[length++] = (char)toupper((unsigned char)*at);
    assert(length < NAME_MAX_LENGTH);
    name_out[length] = '\0';
}

/*
 * Levenshtein's distance, row by row; far more than DISTANCE_MAX for what is too long to be a name.
 */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_LENGTH + 1];
    size_t width = strlen(b);
    if (strlen(a) > NAME_MAX_LENGTH || width > NAME_MAX_LENGTH)
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

void config_suggest(struct suggestion *suggestion, const char *name)
{
    size_t distance = edit_distance(suggestion->wanted, name);
    if (distance <= DISTANCE_MAX && distance < suggestion->distance) {
        suggestion->distance = distance;
        snprintf(suggestion->name, sizeof suggestion->name, "%s", name);
    }
}

/* ---- help ---- */

/* Prints words in lines of at most TEXT_WIDTH, each begun by prefix. */
static void print_wrapped(FILE *out, const char *prefix, const char *text)
{
    while (*text) {
        size_t room = TEXT_WIDTH - strlen(prefix);
        size_t length = strlen(text);
        if (length > room) {
            length = room;
            while (length > 0 && text[length] != ' ')
                length--;
            if (length == 0) /* a word longer than the line */
                length = strcspn(text, " ");
        }
        fprintf(out, "%s%.*s\n", prefix, (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

static void print_help(FILE *out)
{
    fprintf(out,
            "Usage: " PROGRAM " [--config FILE] [--OPTION VALUE]...\n"
            "\n"
            "Sells the units of flash sales over HTTP, never one too many.\n"
            "\n"
            "Each option is a flag (--max-batch 64 or --max-batch=64), an environment variable\n"
            "(SECKILL_MAX_BATCH=64) or a line of the configuration file (max_batch = 64).\n"
            "Flags win over the environment, the environment wins over the file.\n"
            "\n"
            "  --config FILE\n"
            "      Read this configuration file (also SECKILL_CONFIG).\n"
            "  --help, --help-config, --version\n"
            "      Print this text, a commented configuration file, the version.\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &config_options[i];
        char flag[NAME_MAX_LENGTH];
        config_write_flag(option, flag);
        fprintf(out, "  --%s VALUE\n", flag);
        print_wrapped(out, "      ", option->doc);
        fprintf(out, "      Allowed: ");
        config_print_allowed(out, option);
        fprintf(out, ".\n      Default: %s\n", option->initial[0] ? option->initial : "none");
    }
}

static void print_reference(FILE *out)
{
    fprintf(
        out,
        "# Reference configuration of " PROGRAM ", printed by " PROGRAM " --help-config.\n"
        "# Every option stands here with its default; to change one, remove its # and edit it.\n"
        "# A flag (--max-batch 64) wins over the environment (SECKILL_MAX_BATCH=64), which wins\n"
        "# over this file. Comments have lines of their own; values stand without quotes.\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &config_options[i];
        fprintf(out, "\n");
        print_wrapped(out, "# ", option->doc);
        fprintf(out, "# Allowed: ");
        config_print_allowed(out, option);
        fprintf(out, ".\n#%s =%s%s\n", option->name, option->initial[0] ? " " : "",
                option->initial);
    }
}

enum config_result config_print_help(FILE *out, const char *argument)
{
    if (strcmp(argument, "--help") == 0)
        print_help(out);
    else if (strcmp(argument, "--help-config") == 0)
        print_reference(out);
    else if (strcmp(argument, "--version") == 0)
        fprintf(out, PROGRAM " " SECKILL_VERSION "\n");
    else
        return CONFIG_OK;
    return CONFIG_EXIT;
}
