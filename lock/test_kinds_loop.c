/* The tests of test_kinds.c over the form for event loops. */
#define LOCK_TEST_LOOP
#include "lock/test_kinds.c" /* NOLINT: the same tests */
