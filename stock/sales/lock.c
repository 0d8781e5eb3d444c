/* Locks all segments of a sale together for a change of the sale as a whole. */
#include "stock/sales/lock.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { TRIES_MAX = 5 }; /* tries after concurrent changes or unanswered commits */

enum stock_admin_result sale_lock_acquire_first(struct stock *stock, const char *sku, size_t count,
                                                int wait_ms, struct sale_lock *locked)
{
    assert(count > 0 && count <= LEDGER_SEGMENTS_MAX);
    locked->count = count;
    for (size_t i = 0; i < count; i++) {
        segment_name(sku, (uint32_t)i, locked->names[i]);
        locked->requests[i] =
            SECLOCK_REQUEST(.name = locked->names[i], .kind = SECLOCK_KIND_SIMPLE);
        locked->wanted[i] = &locked->requests[i];
    }
    enum seclock_result result = seclock_multi_acquire(
        &SECLOCK_MULTI(.client = stock_locks(stock), .requests = locked->wanted, .count = count,
                       .wait_ms = wait_ms),
        locked->handles);
    if (result == SECLOCK_TIMEOUT)
        return STOCK_ADMIN_BUSY;
    if (result != SECLOCK_OK) {
        fault_note(redis_fault(stock->redis), "acquire", seclock_error());
        return STOCK_ADMIN_FAILED;
    }
    for (size_t i = 0; i < count; i++) {
        locked->holds[i] = (struct segment_hold){.segment = (uint32_t)i, .state = SEGMENT_DIRTY};
        lock_redis_copy(locked->handles[i], STOCK_PREFIX, &locked->holds[i].lock);
        assert(strcmp(locked->holds[i].lock.name, locked->names[i]) == 0);
    }
    return STOCK_ADMIN_OK;
}

bool sale_lock_release(struct stock *stock, struct sale_lock *locked)
{
    assert(locked->count > 0 && locked->count <= LEDGER_SEGMENTS_MAX);
    for (size_t i = 0; i < locked->count; i++)
        if (locked->holds[i].lock.state != SECLOCK_STATE_RELEASED)
            lock_redis_end(&locked->holds[i].lock, stock_call(stock));
    size_t count = stock->call_count; /* calls whose answers matter */
    bool done = stock_run_calls(stock);
    for (size_t i = 0; i < count; i++)
        done = done && stock->calls[i].result == REDIS_ANSWERED && stock->calls[i].values[0] != 0;
    seclock_multi_free(locked->handles, locked->count);
    return done;
}

/* A reset may change the number of segments before they are locked: then it locks all again. */
enum stock_admin_result sale_lock_acquire(struct stock *stock, const char *sku, int wait_ms,
                                          struct sale_lock *locked)
{
    struct sale *sale = NULL;
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        enum ledger_result found = stock_sale_reload(stock, sku, &sale);
        if (found != LEDGER_OK)
            return found == LEDGER_NO ? STOCK_ADMIN_NO_SALE : STOCK_ADMIN_FAILED;
        enum stock_admin_result locks =
            sale_lock_acquire_first(stock, sku, sale_snapshot(sale).segments, wait_ms, locked);
        if (locks != STOCK_ADMIN_OK)
            return locks;
        found = stock_sale_reload(stock, sku, &sale);
        if (found == LEDGER_OK && sale_snapshot(sale).segments == locked->count)
            return STOCK_ADMIN_OK;
        sale_lock_release(stock, locked);
        if (found != LEDGER_OK)
            return found == LEDGER_NO ? STOCK_ADMIN_NO_SALE : STOCK_ADMIN_FAILED;
    }
    return STOCK_ADMIN_BUSY;
}

bool sale_lock_mark(struct stock *stock, struct sale_lock *locked, uint64_t *fences_out)
{
    assert(locked->count > 0 && locked->count <= LEDGER_SEGMENTS_MAX);
    bool held = true;
    stock_flush(stock); /* makes room for one call per segment */
    for (size_t i = 0; i < locked->count; i++) {
        fences_out[i] = locked->holds[i].lock.fence;
        segment_post_mark(stock, &locked->holds[i]);
    }
    stock_run_calls(stock);
    for (size_t i = 0; i < locked->count; i++)
        held = segment_read_mark(stock, &locked->holds[i]) && held;
    return held;
}

void sale_lock_post_round(struct stock *stock, struct sale_lock *locked, uint32_t round,
                          const struct ledger_segment *rows, size_t count)
{
    assert(count > 0 && locked->count >= count); /* nobody sells from a segment that changes */
    for (size_t i = 0; i < locked->count; i++) {
        struct lock_hold *lock = &locked->holds[i].lock;
        if (i >= count) {
            segment_post_retire(stock, lock);
            continue;
        }
        /* If Redis forgot fences, the ledger is ahead: the next lock must get a greater one. */
        if (rows[i].fence > lock->fence)
            segment_post_fence(stock, lock, rows[i].fence);
        locked->holds[i].call = stock->call_count;
        segment_post_load(stock, lock, rows[i].capacity - rows[i].sold, round, rows[i].fence);
    }
}

void sale_lock_end(struct stock *stock, struct sale_lock *locked, enum ledger_result result,
                   const struct ledger_sale *sale, const struct ledger_segment *rows)
{
    assert(result != LEDGER_OK || sale->segments <= locked->count);
    if (result == LEDGER_OK)
        sale_lock_post_round(stock, locked, sale->round, rows, sale->segments);
    for (size_t i = 0; i < locked->count && result != LEDGER_OK && result != LEDGER_UNKNOWN; i++)
        segment_give_back(stock, &locked->holds[i]);
    sale_lock_release(stock, locked);
    if (result == LEDGER_OK)
        sale_publish(stock, sale);
}

enum stock_admin_result sale_change_result(struct sale_change *change, enum ledger_result result)
{
    bool unknown = result == LEDGER_UNKNOWN;
    bool overtaken = result == LEDGER_NO || result == LEDGER_DUPLICATE;
    bool keyed = change->key && change->key[0] != '\0';
    change->again = overtaken || (unknown && keyed);
    return result == LEDGER_OK ? STOCK_ADMIN_OK
           : unknown           ? STOCK_ADMIN_IN_DOUBT
           : overtaken         ? STOCK_ADMIN_BUSY
                               : STOCK_ADMIN_FAILED;
}

enum stock_admin_result sale_change_run(struct stock *stock, struct sale_change *change)
{
    enum stock_admin_result result = STOCK_ADMIN_BUSY;
    struct sale_lock *locked = memory_must(malloc(sizeof *locked));
    bool doubt = false;
    stock_revalidate(stock);
    change->again = true;
    for (int tries = 0; tries < TRIES_MAX && change->again; tries++) {
        change->again = false;
        result = change->try_once(stock, change, locked);
        doubt |= result == STOCK_ADMIN_IN_DOUBT;
    }
    free(locked);
    if (result == STOCK_ADMIN_KEY_OVER && doubt) /* this call did it, before the round ended */
        return STOCK_ADMIN_OK;
    bool certain = result == STOCK_ADMIN_OK || result == STOCK_ADMIN_KEY_REUSED ||
                   result == STOCK_ADMIN_TOO_MANY;
    return doubt && !certain ? STOCK_ADMIN_IN_DOUBT : result;
}

/* Notes the sale here first: this process's orders come before its own message returns. */
void sale_publish(struct stock *stock, const struct ledger_sale *row)
{
    struct sale *sale = sale_cache_put(stock->sale_cache, row);
    if (sale)
        sale_invalidate(sale);
    redis_publish(stock->redis, STOCK_CHANNEL, row->sku);
}

void sale_publish_retired(struct stock *stock, const char *sku, uint32_t round)
{
    char message[SALE_MESSAGE_SIZE];
    sale_cache_retire(stock->sale_cache, sku, round);
    snprintf(message, sizeof message, "%s!%u", sku, round);
    redis_publish(stock->redis, STOCK_CHANNEL, message);
}
