/* Where values come from: the command line, the environment, the configuration file. */
#ifndef SECKILL_SERVICE_CONFIG_SOURCES_H
#define SECKILL_SERVICE_CONFIG_SOURCES_H

#include <stdio.h>

#include "service/config/options.h"

/* The weaker first. */
enum origin { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_ENVIRONMENT, ORIGIN_FLAG };

/* What one option was given; the strongest origin wins. */
struct setting {
    const char *value; /* points into argv, envp or the file: not checked yet */
    enum origin origin;
    unsigned line; /* where the file sets it, 0: nowhere */
};

/* One reading. Begins as {.err = …}, where complaints go. */
struct sources {
    struct setting settings[OPTION_COUNT];
    const char *help; /* "help", "version" … stood in argv: nothing else was read */
    enum config_mode mode;
    const char *path; /* of the configuration file; NULL: none */
    enum origin path_origin;
    char *file; /* its text */
    FILE *err;
};

/* Finds the value of every option. False after a complaint. */
bool sources_read(struct sources *sources, char **argv, char **envp);

/* Frees the file's text; the values that stood in it are lost. */
void sources_free(struct sources *sources);

/* Begins a complaint about what the option was given; the caller ends it. */
void sources_complain(const struct sources *sources, unsigned option);

/* Prints to `err` where the option's value comes from. */
void sources_print_origin(const struct sources *sources, unsigned option);

#endif
