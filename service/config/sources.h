/* The sources of values: the command line, the environment, the configuration file. */
#ifndef SECKILL_SERVICE_CONFIG_SOURCES_H
#define SECKILL_SERVICE_CONFIG_SOURCES_H

#include <stdio.h>

#include "service/config/options.h"

/* The origins, weakest first. */
enum origin { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_ENVIRONMENT, ORIGIN_FLAG };

/* The value given to one option; the strongest origin wins. */
struct setting {
    const char *value; /* points into argv, envp or the file; unchecked */
    enum origin origin;
    unsigned line; /* line of the file that sets it; 0: none */
};

/* One reading. Starts as {.err = …}, the stream for complaints. */
struct sources {
    struct setting settings[OPTION_COUNT];
    const char *help; /* "help", "version" … in argv: nothing else was read */
    enum config_mode mode;
    const char *path; /* the configuration file's; NULL: none */
    enum origin path_origin;
    char *file; /* its text */
    FILE *err;
};

/* Finds the value of every option. False after a complaint. */
bool sources_read(struct sources *sources, char **argv, char **envp);

/* Frees the file's text, and so the values in it. */
void sources_free(struct sources *sources);

/* Begins a complaint about an option's value; the caller ends it. */
void sources_complain(const struct sources *sources, unsigned option);

/* Prints the origin of the option's value to `err`. */
void sources_print_origin(const struct sources *sources, unsigned option);

#endif
