/* The tests of test_conformance.c over the form for event loops. */
#define LOCK_TEST_LOOP
#include "lock/test_conformance.c" /* NOLINT: the same tests */
