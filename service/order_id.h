/* Order ids: 63-bit numbers that grow with time and are unique per node, without asking anybody. */
#ifndef SECKILL_SERVICE_ORDER_ID_H
#define SECKILL_SERVICE_ORDER_ID_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * An id, from its high bits: 41 bits of ms since SNOWFLAKE_EPOCH_MS (until 2094), 10 bits of node,
 * 12 bits of sequence.
 */
#define SNOWFLAKE_EPOCH_MS UINT64_C(1735689600000) /* 2025-01-01T00:00:00Z, in Unix ms */
#define SNOWFLAKE_NODE_BITS 10
#define SNOWFLAKE_SEQUENCE_BITS 12
#define SNOWFLAKE_NODE_MAX ((1U << SNOWFLAKE_NODE_BITS) - 1)
#define SNOWFLAKE_RESERVE_MAX (1U << SNOWFLAKE_SEQUENCE_BITS) /* most ids of one ms */
#define SNOWFLAKE_TEXT_SIZE 21                                /* 20 digits and the final NUL */

/* Unix time in ms. Called by whichever thread asks for an id. */
typedef uint64_t (*snowflake_clock_t)(void *context);

/*
 * One per process. The fields are private. Any number of threads may use one generator at a time,
 * without a lock.
 */
struct snowflake {
    _Atomic uint64_t next; /* the first unused place: ms since the epoch << 12 | sequence */
    uint64_t node;
    snowflake_clock_t clock;
    void *clock_context;
};

/*
 * node: 0..SNOWFLAKE_NODE_MAX, not in use by another process at the same time. clock NULL: the
 * system's clock. Call before any other thread sees the generator. It holds nothing that would have
 * to be freed.
 */
void snowflake_init(struct snowflake *snowflake, unsigned node, snowflake_clock_t clock,
                    void *clock_context);

/*
 * A new id, larger than every id this generator gave before, also when the clock stepped back.
 * Never 0 with a clock past the epoch.
 */
uint64_t snowflake_next(struct snowflake *snowflake);

/*
 * The first of n consecutive ids (id, id + 1, … id + n - 1), all of one ms; n:
 * 1..SNOWFLAKE_RESERVE_MAX. When the present ms has fewer than n left, they come from the next one,
 * ahead of the clock: it never waits.
 */
uint64_t snowflake_reserve(struct snowflake *snowflake, unsigned n);

/*
 * From now on every id is of a later ms than `id`. For a start after a clock that stepped back:
 * skip the largest id known to have been given out. An id that is already behind changes nothing.
 */
void snowflake_skip(struct snowflake *snowflake, uint64_t id);

/* The Unix time in ms at which the id was made. */
uint64_t snowflake_time_ms(uint64_t id);

/* The node that made the id. */
unsigned snowflake_node(uint64_t id);

/* Decimal text, without leading zeros, ended by NUL. */
void snowflake_format(uint64_t id, char text_out[SNOWFLAKE_TEXT_SIZE]);

/*
 * True for digits only, without leading zeros, of at most 63 bits; *id_out is 0 otherwise. Accepts
 * exactly what snowflake_format writes for ids, so one order has one spelling.
 */
bool snowflake_parse(const char *text, uint64_t *id_out);

#endif
