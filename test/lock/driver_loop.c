/* The driver over the form for event loops, for the same tests. */
#include <signal.h>

#include "lock/test_loop_form.h"
#include "test/lock/driver.c" /* NOLINT: the same program */
