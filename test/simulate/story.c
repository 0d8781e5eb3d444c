/* Tells the events of a schedule in lines that a reader can follow. */
#include "test/simulate/story.h"

#include <stdarg.h>
#include <stdio.h>

bool story_told = false;
static bool is_paused = false;
static int64_t (*time_now)(void);
static const char *(*actor_now)(void);

void story_begin(int64_t (*time_ns)(void), const char *(*actor)(void))
{
    time_now = time_ns;
    actor_now = actor;
    is_paused = false;
}

void story_pause(bool paused)
{
    if (paused && !is_paused)
        story("  ... and so on ...");
    is_paused = paused;
}

void story_line(const char *format, ...)
{
    va_list arguments;
    if (is_paused)
        return;
    printf("%10.3f ms  %-12s ", (double)time_now() / 1e6, actor_now());
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}
