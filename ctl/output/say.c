/* Messages for the operator, on standard error. */
#define _GNU_SOURCE /* vasprintf */
#include "ctl/output/say.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* U+0080 to U+009F are two bytes of UTF-8, 0xc2 and the number: some terminals obey them. */
void say_clean(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; at++) {
        bool c1 = *at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0;
        if (*at < ' ' || *at == 0x7f || c1)
            *at = '?';
        if (c1)
            *++at = '?';
    }
}

void say(const char *format, ...)
{
    char *line = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&line, format, args);
    va_end(args);
    if (length < 0)
        abort();
    say_clean(line);
    fprintf(stderr, "seckillctl: %s\n", line);
    free(line);
}
