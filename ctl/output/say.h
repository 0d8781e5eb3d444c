/* Talks to the operator on the terminal: messages, questions, and what Ctrl-C leaves unknown. */
#ifndef SECKILL_CTL_OUTPUT_SAY_H
#define SECKILL_CTL_OUTPUT_SAY_H

#include "ctl/context.h"

/* Prints one line behind the program's name on standard error. Control characters become '?', as
 * parts of the text come from the network and the reader may be a terminal. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Overwrites control characters of a text, of ASCII and the C1 ones in UTF-8, by '?'. Other bytes
 * beyond ASCII stay. */
void say_clean(char *text);

/* Says what will happen and cannot be taken back, and asks whether to go on: EX_OK with --yes or
 * when the operator says yes; EX_REFUSED when not; EX_USAGE where nobody can be asked. */
int say_and_ask(const struct context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* From now on SIGINT, SIGTERM and SIGHUP print `text`, whole lines, on standard error and end the
 * program with EX_TEMPFAIL. The text is copied, and cut where it is too long. One thread. */
void say_on_signal(const char *text);

/* From now on the signals do what they did before. */
void say_on_signal_no_more(void);

#endif
