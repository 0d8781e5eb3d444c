/* Talks to the operator on the terminal: messages, questions, and what Ctrl-C leaves unknown. */
#ifndef SECKILL_CTL_OUTPUT_SAY_H
#define SECKILL_CTL_OUTPUT_SAY_H

#include <stdbool.h>
#include <sysexits.h>

/* Prints one line after the program's name on standard error. Control characters become '?',
 * because parts of the text come from the network and the reader may be a terminal. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says why something is not done; the value is `result`, for the caller to return. */
#define REFUSE(result, ...) (say(__VA_ARGS__), (result))

/* Overwrites a text's control characters (ASCII, and C1 in UTF-8) by '?'; other bytes stay. */
void say_clean(char *text);

/* Complements sysexits.h: the service refused the call in the present state of the sale or the
 * order, an audit found a difference, or the operator said no. */
enum { EX_REFUSED = 1 };

/* Says what will happen irrevocably and, unless `yes`, asks whether to go on: EX_OK, EX_REFUSED
 * when the operator says no, EX_USAGE when nobody can be asked. */
int say_and_ask(bool yes, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* From now on SIGINT, SIGTERM and SIGHUP print `text`, whole lines, on standard error and end the
 * program with EX_TEMPFAIL. The caller keeps the text until say_on_signal_no_more. One thread. */
void say_on_signal(const char *text);

/* Restores what the signals did before. */
void say_on_signal_no_more(void);

#endif
