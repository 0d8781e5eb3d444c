/* An assertion of the project that fails is a broken promise: it has a story and can be shrunk. */
#include <stdio.h>
#include <stdlib.h>

#include "test/simulate/machine/loop.h"
#include "test/simulate/promise.h"

_Noreturn void __wrap___assert_fail(const char *assertion, const char *file, unsigned line,
                                    const char *function);

_Noreturn void __wrap___assert_fail(const char *assertion, const char *file, unsigned line,
                                    const char *function)
{
    if (task_current()) {
        promise_break("assertion in %s: %s", function, assertion);
        for (;;)
            task_sleep(0); /* the schedule is over: nothing comes back here */
    }
    fprintf(stderr, "simulate: %s:%u: %s: assertion: %s\n", file, line, function, assertion);
    abort();
}
