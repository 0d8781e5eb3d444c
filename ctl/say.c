/* Messages for the operator, on standard error. */
#include "ctl/say.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_SIZE = 2048 };

void say_clean(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; at++)
        if (*at < ' ' || *at == 0x7f)
            *at = '?';
}

void say(const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    say_clean(line);
    fprintf(stderr, "seckillctl: %s\n", line);
}
