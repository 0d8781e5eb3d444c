/* seckillctl: shows and steers the sales of seckilld over its HTTP interface. */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "ctl/commands.h"
#include "ctl/http.h"
#include "ctl/output/say.h"
#include "ctl/pods.h"

enum { TIMEOUT_S = 30, TIMEOUT_S_MAX = 86400 };

static int run(const struct command *command, struct context *context)
{
    if (!options_number(&context->options, OPTION_TIMEOUT, 1, TIMEOUT_S_MAX, TIMEOUT_S,
                        &context->timeout_s))
        return EX_USAGE;
    if (command->pods == PODS_OFFLINE)
        return command->run(context);
    if (!config_load(&context->config, context->options.values[OPTION_CONFIG]))
        return EX_CONFIG;
    context->http = http_open(&context->config, (long)context->timeout_s);
    int status = pods_run(command, context);
    http_close(context->http);
    explicit_bzero(&context->config, sizeof context->config);
    return status;
}

/* A full disk behind standard output shows only now. */
static int finish(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    say("cannot write to standard output: %s", strerror(errno));
    return status == EX_OK ? EX_IOERR : status;
}

int main(int argc, char **argv)
{
    static struct context context;
    context.argc = argc;
    context.argv = argv;
    setlocale(LC_CTYPE, "");
    if (!options_read(&context.options, argc, argv))
        return EX_USAGE;
    const char *name = argument(&context, 0);
    if (has_option(&context, OPTION_HELP))
        return finish(commands_help(name, stdout));
    if (!name) {
        commands_help(NULL, stderr);
        return EX_USAGE;
    }
    const struct command *command = commands_find(name);
    if (!command || !commands_check(command, &context.options))
        return EX_USAGE;
    return finish(run(command, &context));
}
