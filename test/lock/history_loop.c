/* The recorder of histories over the form for event loops. */
#include <signal.h>

#include "lock/test_loop_form.h"
#include "test/lock/history.c" /* NOLINT: the same program */
