/* The tests of test_election.c over the form for event loops. */
#define LOCK_TEST_LOOP
#include "lock/test_election.c" /* NOLINT: the same tests */
