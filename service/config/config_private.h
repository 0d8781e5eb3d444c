/* Private to config*.c: the options' table, the loader, what the parts do for each other. */
#ifndef SECKILL_SERVICE_CONFIG_PRIVATE_H
#define SECKILL_SERVICE_CONFIG_PRIVATE_H

#include <stdbool.h>

#include "service/config/config.h"

#define PROGRAM "seckilld"
#define NAME_MAX_LENGTH 32 /* of an option as a flag or a variable, with the NUL */

enum type { ADDRESS, URL, URLS, SECRET, PATH, UNSIGNED, INTEGER, CHOICE, NETWORKS };

struct option {
    enum type type;
    const char *name;
    const char *initial;
    const char *detail;
    long min, max;
    const char *doc;
    size_t offset;
};

/* The number of each option, in the order of the table. */
#define OPTION(type, name, initial, detail, min, max, doc) OPTION_##name,
enum { CONFIG_OPTIONS(OPTION) OPTION_COUNT };
#undef OPTION

extern const struct option config_options[OPTION_COUNT];

/* The weaker first. */
enum origin { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_ENVIRONMENT, ORIGIN_FLAG };

/* What one option was given; the strongest origin wins. */
struct setting {
    const char *value;
    enum origin origin;
    unsigned line; /* where the file sets it, 0: nowhere */
};

struct loader {
    struct setting settings[OPTION_COUNT];
    const char *path; /* of the file; NULL: none */
    enum origin path_origin;
    char *file; /* its text: the settings point into it */
    FILE *out;
    FILE *err;
};

/* config_value.c */

/* Says what the option may be, as the end of a sentence. */
void config_print_allowed(FILE *stream, const struct option *option);

/* Says in the loader's err where the option's value comes from. */
void config_print_origin(const struct loader *loader, const struct option *option);

/* Begins a message about what the option was given; the caller ends it. */
void config_print_complaint(const struct loader *loader, const struct option *option);

/* Sets the option's field to a copy of the value; false, and nothing is set, when the value is not
 * of the option's kind. */
bool config_set(struct config *config, const struct option *option, const char *value);

/* Sets the option's field to what the loader found; false after a complaint. */
bool config_apply(const struct loader *loader, const struct option *option, struct config *config);

/* config_help.c */

/* The option's name on the command line, without the dashes, and in the environment. */
void config_write_flag(const struct option *option, char name_out[NAME_MAX_LENGTH]);
void config_write_variable(const struct option *option, char name_out[NAME_MAX_LENGTH]);

/* The nearest to a mistyped name among those offered one after the other. Begins with
 * {.wanted = …, .distance = SIZE_MAX}; the name is empty while none is near enough. */
struct suggestion {
    const char *wanted;
    char name[NAME_MAX_LENGTH];
    size_t distance;
};

void config_suggest(struct suggestion *suggestion, const char *name);

/* Prints what --help, --help-config or --version asks for: CONFIG_EXIT; CONFIG_OK when the argument
 * is none of them. */
enum config_result config_print_help(FILE *out, const char *argument);

#endif
