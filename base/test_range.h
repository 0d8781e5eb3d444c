/* For unit tests: asserts that a whole number is in a range, with any cmocka. */
#ifndef SECKILL_BASE_TEST_RANGE_H
#define SECKILL_BASE_TEST_RANGE_H

/* The caller includes cmocka.h, with what that needs before it, first. Before 2.0, cmocka had one
 * macro for all ranges. It took a negative number for a huge one: no bound may be negative. */
#ifndef assert_int_in_range
#define assert_int_in_range(value, minimum, maximum) assert_in_range(value, minimum, maximum)
#endif

#endif
