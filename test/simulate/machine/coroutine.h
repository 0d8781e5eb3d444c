/* Coroutines: functions that stop in the middle and go on later, each on a stack of its own. */
#ifndef SIMULATE_COROUTINE_H
#define SIMULATE_COROUTINE_H

struct coroutine;

/* Makes a coroutine that runs body(argument) when it is first resumed. Aborts when there are
 * COROUTINES_MAX. */
struct coroutine *coroutine_make(void (*body)(void *argument), void *argument);

/* Lets a coroutine run until it yields or ends. Not from within a coroutine. */
void coroutine_resume(struct coroutine *coroutine);

/* Returns to the caller of resume; continues here when the coroutine is resumed again. */
void coroutine_yield(void);

/* Takes the stack back, whether the coroutine has ended or not. Not the present one's. */
void coroutine_free(struct coroutine *coroutine);

#endif
