/* What Ctrl-C says while a call is under way that changes something. */
#include "ctl/output/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum { TEXT_SIZE = 8192 };

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNAL_COUNT = sizeof signals / sizeof signals[0] };

static char said[TEXT_SIZE];
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

void interrupt_say(const char *text)
{
    struct sigaction action = {.sa_handler = on_signal};
    snprintf(said, sizeof said, "%s", text);
    said_length = strlen(said);
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        sigaction(signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) /* as under nohup */
            sigaction(signals[i], &action, NULL);
    }
}

void interrupt_done(void)
{
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        sigaction(signals[i], &before[i], NULL);
}
