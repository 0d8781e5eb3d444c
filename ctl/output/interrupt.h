/* What Ctrl-C says while a call is under way that changes something. */
#ifndef SECKILL_CTL_OUTPUT_INTERRUPT_H
#define SECKILL_CTL_OUTPUT_INTERRUPT_H

/* From now on SIGINT, SIGTERM and SIGHUP print `text`, whole lines, on standard error and end the
 * program with EX_TEMPFAIL. The text is copied, and cut where it is too long. One thread. */
void interrupt_say(const char *text);

/* From now on the signals do what they did before. */
void interrupt_done(void);

#endif
