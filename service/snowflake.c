/* Order ids: 63-bit numbers that grow with time and are unique per node, without asking anybody. */
#include "service/snowflake.h"

#include <assert.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/decimal.h"

#define SEQUENCE_MASK ((UINT64_C(1) << SNOWFLAKE_SEQUENCE_BITS) - 1)
#define TIME_SHIFT (SNOWFLAKE_NODE_BITS + SNOWFLAKE_SEQUENCE_BITS)
#define TIME_BITS 41
#define DIGITS_MAX 19 /* of a number of 63 bits */

static uint64_t system_clock_ms(void *context)
{
    (void)context;
    return (uint64_t)clock_wall_ms();
}

static uint64_t ms_since_epoch(const struct snowflake *snowflake)
{
    uint64_t now = snowflake->clock(snowflake->clock_context);
    return now > SNOWFLAKE_EPOCH_MS ? now - SNOWFLAKE_EPOCH_MS : 0;
}

void snowflake_init(struct snowflake *snowflake, unsigned node, snowflake_clock_t clock,
                    void *clock_context)
{
    assert(node <= SNOWFLAKE_NODE_MAX);
    atomic_init(&snowflake->next, 0);
    snowflake->node = node;
    snowflake->clock = clock ? clock : system_clock_ms;
    snowflake->clock_context = clock_context;
}

uint64_t snowflake_next(struct snowflake *snowflake)
{
    return snowflake_reserve(snowflake, 1);
}

uint64_t snowflake_reserve(struct snowflake *snowflake, unsigned n)
{
    assert(n >= 1 && n <= SNOWFLAKE_RESERVE_MAX);
    uint64_t now = ms_since_epoch(snowflake) << SNOWFLAKE_SEQUENCE_BITS;
    uint64_t unused = atomic_load_explicit(&snowflake->next, memory_order_relaxed);
    uint64_t first;
    do {
        first = unused > now ? unused : now;
        if ((first & SEQUENCE_MASK) + n > SNOWFLAKE_RESERVE_MAX)
            first = (first | SEQUENCE_MASK) + 1;
        /* Relaxed suffices: the ids are unique by the atomicity of this one word. */
    } while (!atomic_compare_exchange_weak_explicit(&snowflake->next, &unused, first + n,
                                                    memory_order_relaxed, memory_order_relaxed));

    uint64_t ms = first >> SNOWFLAKE_SEQUENCE_BITS;
    assert(ms >> TIME_BITS == 0);
    return ms << TIME_SHIFT | snowflake->node << SNOWFLAKE_SEQUENCE_BITS | (first & SEQUENCE_MASK);
}

void snowflake_skip(struct snowflake *snowflake, uint64_t id)
{
    uint64_t least = ((id >> TIME_SHIFT) + 1) << SNOWFLAKE_SEQUENCE_BITS;
    uint64_t unused = atomic_load_explicit(&snowflake->next, memory_order_relaxed);
    while (unused < least &&
           !atomic_compare_exchange_weak_explicit(&snowflake->next, &unused, least,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

uint64_t snowflake_time_ms(uint64_t id)
{
    return (id >> TIME_SHIFT) + SNOWFLAKE_EPOCH_MS;
}

unsigned snowflake_node(uint64_t id)
{
    return (unsigned)(id >> SNOWFLAKE_SEQUENCE_BITS) & SNOWFLAKE_NODE_MAX;
}

void snowflake_format(uint64_t id, char text_out[SNOWFLAKE_TEXT_SIZE])
{
    *decimal_put(text_out, id) = '\0';
}

bool snowflake_parse(const char *text, uint64_t *id_out)
{
    *id_out = 0;
    if (text[0] == '0' && text[1] != '\0')
        return false;
    uint64_t id = 0;
    size_t count = 0;
    for (; text[count] != '\0'; count++) {
        if (count == DIGITS_MAX || text[count] < '0' || text[count] > '9')
            return false;
        id = id * 10 + (uint64_t)(text[count] - '0'); /* 19 digits stay below 2^64 */
    }
    if (count == 0 || id > INT64_MAX)
        return false;
    *id_out = id;
    return true;
}
