/* Talks to the operator on the terminal: messages, questions, and what Ctrl-C leaves unknown. */
#define _GNU_SOURCE /* vasprintf */
#include "ctl/output/say.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- questions ---- */

enum { QUESTION_SIZE = 512, REPLY_SIZE = 16 };

static bool said_yes(void)
{
    char reply[REPLY_SIZE] = "";
    fputs("Go on? [y/N] ", stderr);
    if (!fgets(reply, sizeof reply, stdin))
        return false;
    reply[strcspn(reply, "\r\n")] = '\0';
    return strcasecmp(reply, "y") == 0 || strcasecmp(reply, "yes") == 0;
}

int say_and_ask(bool yes, const char *format, ...)
{
    char text[QUESTION_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say("%s", text);
    if (yes)
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

/* ---- signals ---- */

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNAL_COUNT = sizeof signals / sizeof signals[0] };

static const char *said;
static size_t said_length;
static struct sigaction before[SIGNAL_COUNT];

static void on_signal(int number)
{
    (void)number;
    /* Nothing is left to do if the terminal is gone. */
    ssize_t written = write(STDERR_FILENO, said, said_length);
    (void)written;
    _exit(EX_TEMPFAIL);
}

void say_on_signal(const char *text)
{
    struct sigaction action = {.sa_handler = on_signal};
    said = text;
    said_length = strlen(text);
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        sigaction(signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) /* ignored signals stay so, as under nohup */
            sigaction(signals[i], &action, NULL);
    }
}

void say_on_signal_no_more(void)
{
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        sigaction(signals[i], &before[i], NULL);
}
