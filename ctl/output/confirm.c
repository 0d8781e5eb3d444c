/* Asks the operator before something that cannot be taken back. */
#include "ctl/output/confirm.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/output/say.h"

enum { TEXT_SIZE = 512, REPLY_SIZE = 16 };

static bool said_yes(void)
{
    char reply[REPLY_SIZE] = "";
    fputs("Go on? [y/N] ", stderr);
    if (!fgets(reply, sizeof reply, stdin))
        return false;
    reply[strcspn(reply, "\r\n")] = '\0';
    return strcasecmp(reply, "y") == 0 || strcasecmp(reply, "yes") == 0;
}

int confirm(const struct context *context, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say("%s", text);
    if (has_option(context, OPTION_YES))
        return EX_OK;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        say("not done: nobody can be asked here; --yes says yes");
        return EX_USAGE;
    }
    if (said_yes())
        return EX_OK;
    say("not done");
    return EX_REFUSED;
}
