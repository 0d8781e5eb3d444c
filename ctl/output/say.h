/* Messages for the operator, on standard error. */
#ifndef SECKILL_CTL_OUTPUT_SAY_H
#define SECKILL_CTL_OUTPUT_SAY_H

/* Prints one line behind the program's name. Control characters become '?', as parts of the text
 * come from the network and the reader may be a terminal. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Overwrites control characters of a text, of ASCII and the C1 ones in UTF-8, by '?'. Other bytes
 * beyond ASCII stay. */
void say_clean(char *text);

#endif
