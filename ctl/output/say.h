/* Talks to the operator on the terminal: messages, questions, and what Ctrl-C leaves unknown. */
#ifndef SECKILL_CTL_OUTPUT_SAY_H
#define SECKILL_CTL_OUTPUT_SAY_H

#include <stdbool.h>
#include <sysexits.h>

/* Prints one line behind the program's name on standard error. Control characters become '?', as
 * parts of the text come from the network and the reader may be a terminal. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Overwrites control characters of a text, of ASCII and the C1 ones in UTF-8, by '?'. Other bytes
 * beyond ASCII stay. */
void say_clean(char *text);

/* Beside those of sysexits.h: the service refused the call as the sale or the order is, an audit
 * found a difference, or the operator said no. */
enum { EX_REFUSED = 1 };

/* Says what will happen and cannot be taken back and, unless `yes`, asks whether to go on: EX_OK,
 * EX_REFUSED when the operator says no, EX_USAGE where nobody can be asked. */
int say_and_ask(bool yes, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* From now on SIGINT, SIGTERM and SIGHUP print `text`, whole lines, on standard error and end the
 * program with EX_TEMPFAIL. The text stays the caller's until they do so no more. One thread. */
void say_on_signal(const char *text);

/* From now on the signals do what they did before. */
void say_on_signal_no_more(void);

#endif
