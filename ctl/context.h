/* The context of a command: its options, the addresses of the daemons and the connection. */
#ifndef SECKILL_CTL_CONTEXT_H
#define SECKILL_CTL_CONTEXT_H

#include "ctl/config.h"
#include "ctl/options.h"
#include "ctl/output/say.h"

struct http;

struct context {
    struct config config;
    struct options options;
    struct http *http;
    int64_t timeout_s;           /* of a call */
    size_t pods_begin, pods_end; /* numbers of the pods that the command may ask */
    int argc;                    /* the original command line, to say how to repeat it */
    char **argv;
};

/* Returns the command's argument, from 1 on; NULL: not given. */
static inline const char *argument(const struct context *context, size_t number)
{
    return number < context->options.argument_count ? context->options.arguments[number] : NULL;
}

static inline bool has_option(const struct context *context, enum ctl_option option)
{
    return context->options.values[option] != NULL;
}

/* say_and_ask, to which --yes says yes. */
#define CONFIRM(context, ...) say_and_ask(has_option(context, OPTION_YES), __VA_ARGS__)

#endif
