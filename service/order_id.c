/* Order ids: snowflakes, 63-bit numbers that grow with time and that a daemon makes by itself. */
#include "service/order_id.h"

#include <assert.h>
#include <stddef.h>

#include "base/clock.h"

#define SEQUENCE_MASK ((UINT64_C(1) << ORDER_ID_SEQUENCE_BITS) - 1)
#define TIME_SHIFT (ORDER_ID_NODE_BITS + ORDER_ID_SEQUENCE_BITS)
#define TIME_BITS 41
#define DIGITS_MAX 19 /* of a number of 63 bits */

static uint64_t system_clock_ms(void *context)
{
    (void)context;
    return (uint64_t)clock_wall_ms();
}

static uint64_t since_epoch(uint64_t ms)
{
    return ms > ORDER_ID_EPOCH_MS ? ms - ORDER_ID_EPOCH_MS : 0;
}

void order_ids_init(struct order_ids *ids, unsigned node, order_id_clock_t clock,
                    void *clock_context)
{
    assert(node <= ORDER_ID_NODE_MAX);
    atomic_init(&ids->next, 0);
    ids->node = node;
    ids->clock = clock ? clock : system_clock_ms;
    ids->clock_context = clock_context;
}

/* why_one_number: time and sequence are one number, so that one compare and swap moves both. When
 * the clock has stepped back, `next` is ahead of it and goes on counting; a sequence that is used
 * up carries into the time, which is then the next ms. */
uint64_t order_ids_reserve(struct order_ids *ids, unsigned n, uint64_t *now_ms_out)
{
    assert(n >= 1 && n <= ORDER_ID_RESERVE_MAX);
    *now_ms_out = ids->clock(ids->clock_context);
    uint64_t now = since_epoch(*now_ms_out) << ORDER_ID_SEQUENCE_BITS;
    uint64_t unused = atomic_load_explicit(&ids->next, memory_order_relaxed);
    uint64_t first;
    do {
        first = unused > now ? unused : now;
        /* The n ids share one time (see the header), so a range never spans two ms. */
        if ((first & SEQUENCE_MASK) + n > ORDER_ID_RESERVE_MAX)
            first = (first | SEQUENCE_MASK) + 1;
        /* Relaxed suffices: the ids are unique by the atomicity of this one number. */
    } while (!atomic_compare_exchange_weak_explicit(&ids->next, &unused, first + n,
                                                    memory_order_relaxed, memory_order_relaxed));

    uint64_t ms = first >> ORDER_ID_SEQUENCE_BITS;
    assert(ms >> TIME_BITS == 0);
    return ms << TIME_SHIFT | ids->node << ORDER_ID_SEQUENCE_BITS | (first & SEQUENCE_MASK);
}

uint64_t order_id_time_ms(uint64_t id)
{
    return (id >> TIME_SHIFT) + ORDER_ID_EPOCH_MS;
}

bool order_id_parse(const char *text, uint64_t *id_out)
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
