/* Order ids: snowflakes, 63-bit numbers that grow with time and that a daemon makes by itself. */
#include "service/request/order_id.h"

#include <assert.h>
#include <stddef.h>

#include "base/clock.h"

#define SEQUENCE_MASK ((UINT64_C(1) << ORDER_ID_SEQUENCE_BITS) - 1)
#define NODE_SHIFT (ORDER_ID_POD_BITS + ORDER_ID_SEQUENCE_BITS)
#define TIME_SHIFT (ORDER_ID_NODE_BITS + NODE_SHIFT)
#define DIGITS_MAX 19 /* decimal digits of 63 bits */

static uint64_t since_epoch(uint64_t ms)
{
    return ms > ORDER_ID_EPOCH_MS ? ms - ORDER_ID_EPOCH_MS : 0;
}

void order_ids_init(struct order_ids *ids, order_id_clock_t clock, void *clock_context,
                    unsigned pod)
{
    assert(pod <= ORDER_ID_POD_MAX);
    *ids = (struct order_ids){
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .pod = pod,
        .clock = clock,
        .clock_context = clock_context,
    };
}

static uint64_t first_place(uint64_t ms)
{
    return since_epoch(ms) << ORDER_ID_SEQUENCE_BITS;
}

void order_ids_lease(struct order_ids *ids, const struct order_id_lease *lease)
{
    assert(lease->node <= ORDER_ID_NODE_MAX && lease->from_ms <= lease->to_ms);
    assert(lease->to_ms <= ORDER_ID_LAST_MS);
    pthread_mutex_lock(&ids->mutex);
    uint64_t from = first_place(lease->from_ms);
    if (lease->node != ids->node) /* a later ms: ids grow even if the new node is smaller */
        ids->next = (ids->next | SEQUENCE_MASK) + 1;
    ids->next = ids->next > from ? ids->next : from;
    ids->end = first_place(lease->to_ms);
    ids->node = lease->node;
    ids->until_ns = lease->until_ns;
    pthread_mutex_unlock(&ids->mutex);
}

int order_ids_node(struct order_ids *ids)
{
    pthread_mutex_lock(&ids->mutex);
    int node = ids->until_ns != 0 ? (int)ids->node : -1;
    pthread_mutex_unlock(&ids->mutex);
    return node;
}

uint64_t order_ids_next_ms(struct order_ids *ids)
{
    uint64_t now_ms = ids->clock(ids->clock_context);
    pthread_mutex_lock(&ids->mutex);
    uint64_t next_ms = (ids->next + SEQUENCE_MASK) >> ORDER_ID_SEQUENCE_BITS;
    pthread_mutex_unlock(&ids->mutex);
    next_ms += ORDER_ID_EPOCH_MS;
    return next_ms > now_ms ? next_ms : now_ms;
}

/* why_one_number: time and sequence are one number. When the clock has stepped back, `next` is
 * ahead of it and keeps counting; a sequence that is used up carries into the next ms. */
static uint64_t reserve(struct order_ids *ids, unsigned n, uint64_t now)
{
    uint64_t first = now > ids->next && now < ids->end ? now : ids->next;
    /* The n ids share one time (see the header), so a range never spans two ms. */
    if ((first & SEQUENCE_MASK) + n > ORDER_ID_RESERVE_MAX)
        first = (first | SEQUENCE_MASK) + 1;
    if (first + n > ids->end)
        return 0;
    ids->next = first + n;
    uint64_t ms = first >> ORDER_ID_SEQUENCE_BITS;
    assert(ms >> ORDER_ID_TIME_BITS == 0);
    return ms << TIME_SHIFT | ids->node << NODE_SHIFT | ids->pod << ORDER_ID_SEQUENCE_BITS |
           (first & SEQUENCE_MASK);
}

uint64_t order_ids_reserve(struct order_ids *ids, unsigned n, uint64_t *now_ms_out)
{
    assert(n >= 1 && n <= ORDER_ID_RESERVE_MAX);
    *now_ms_out = ids->clock(ids->clock_context);
    int64_t boot_ns = clock_boot_ns();
    pthread_mutex_lock(&ids->mutex);
    bool leased = boot_ns < ids->until_ns && *now_ms_out <= ORDER_ID_LAST_MS;
    uint64_t id = leased ? reserve(ids, n, first_place(*now_ms_out)) : 0;
    pthread_mutex_unlock(&ids->mutex);
    return id;
}

unsigned order_id_pod(uint64_t id)
{
    return (unsigned)(id >> ORDER_ID_SEQUENCE_BITS) & ORDER_ID_POD_MAX;
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
