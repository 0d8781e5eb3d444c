/* Posts and reads the calls of one hold of one segment (lock and take, settle and release), and
 * sets segments again from the ledger. */
#include "stock/segment.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sql/orders/orders.h"
#include "lock/redis/pipeline.h"

/* First number of stock_open.lua; 2 means dirty. */
enum { OPEN_LOST = 0, OPEN_MARKED = 1 };

/* The number of values that stock_take.lua returns for a segment that is locked and settled. */
enum { TAKE_VALUES = 5 };

void segment_name(const char *sku, uint32_t segment, char name_out[SECLOCK_NAME_MAX])
{
    snprintf(name_out, SECLOCK_NAME_MAX, "%s:%u", sku, segment);
}

int segment_compare(const void *left, const void *right)
{
    const struct segment_hold *a = *(struct segment_hold *const *)left;
    const struct segment_hold *b = *(struct segment_hold *const *)right;
    int order = a->sale == b->sale ? 0 : strcmp(sale_sku(a->sale), sale_sku(b->sale));
    return order != 0 ? order : (a->segment > b->segment) - (a->segment < b->segment);
}

/* Each script gets the token, and does nothing unless that token holds the lock, which stock_take
 * acquires: a holder that outlived its lease changes nothing in Redis. */
static struct script_call *segment_call(struct stock *stock, enum script_id id,
                                        const struct lock_hold *lock)
{
    char key[SCRIPT_KEY_MAX];
    struct script_call *call = stock_call(stock);
    script_begin(call, id);
    lock_redis_key(STOCK_PREFIX, lock->name, "lock", key);
    script_key(call, key);
    lock_redis_key(STOCK_PREFIX, lock->name, "segment", key);
    script_key(call, key);
    if (id == SCRIPT_stock_retire || id == SCRIPT_stock_take) {
        lock_redis_key(STOCK_PREFIX, lock->name, "fence", key);
        script_key(call, key);
    }
    script_text(call, lock->token);
    return call;
}

void segment_begin(struct segment_hold *hold, struct sale *sale,
                   const struct sale_snapshot *snapshot, uint32_t segment)
{
    hold->sale = sale;
    hold->segment = segment;
    hold->round = snapshot->round;
    hold->settings_version = snapshot->settings.version;
    hold->state = SEGMENT_POSTED;
    hold->wanted = hold->taken = hold->used = hold->left = 0;
    hold->settled = 0;
    hold->withheld = hold->refused = false;
}

/* Begins a hold whose first call is the pipeline's next. */
static void begin_posted(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                         const struct sale_snapshot *snapshot, uint32_t segment,
                         char name_out[SECLOCK_NAME_MAX])
{
    segment_name(sale_sku(sale), segment, name_out);
    segment_begin(hold, sale, snapshot, segment);
    assert(hold >= stock->holds && hold < stock->holds + STOCK_HOLDS_MAX);
    hold->call = stock->call_count;
    hold->sent_ns = clock_now_ns();
}

static void read_lock(struct stock *stock, struct segment_hold *hold)
{
    assert(hold->state == SEGMENT_POSTED && stock->call_count == 0);
    switch (lock_redis_acquired(&hold->lock, &stock->calls[hold->call], hold->sent_ns)) {
    case SECLOCK_OK: /* until the contents say otherwise */
        hold->state = SEGMENT_DIRTY;
        break;
    case SECLOCK_UNKNOWN: /* it may be held in our name until its lease ends */
        hold->state = SEGMENT_DOUBT;
        break;
    default:
        hold->state = SEGMENT_BUSY;
        break;
    }
}

void segment_post_take(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                       const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted)
{
    assert(wanted <= LEDGER_TOTAL_MAX && segment < snapshot->segments);
    char name[SECLOCK_NAME_MAX];
    begin_posted(stock, hold, sale, snapshot, segment, name);
    hold->wanted = wanted;
    lock_redis_prepare(&hold->lock, STOCK_PREFIX, name, stock->options.lease_ms);
    struct script_call *take = segment_call(stock, SCRIPT_stock_take, &hold->lock);
    script_int(take, stock->options.lease_ms);
    script_int(take, snapshot->round);
    script_int(take, wanted);
}

/* True when Redis still has fewer units than the ledger had. If Redis was settled after the ledger
 * was asked, the units may have been sold since: then the ledger is asked again, and only a segment
 * that has not changed since has too few. */
static bool knows_too_few(const struct segment_hold *hold)
{
    uint32_t units = 0;
    uint64_t fence = sale_suspect_take(hold->sale, hold->segment, &units);
    if (fence == 0 || hold->taken + hold->left >= units)
        return false;
    if (hold->settled <= fence)
        return true;
    sale_suspect_later(hold->sale, hold->segment, hold->settled);
    return false;
}

static enum segment_state taken_state(struct segment_hold *hold, const struct script_call *take)
{
    const int64_t *values = take->values;
    /* Another round, an open one, nothing, or nonsense: the ledger corrects all of these. */
    if (take->value_count != TAKE_VALUES || values[2] < 0 || values[2] > hold->wanted ||
        values[3] < 0 || values[4] < 0 || values[4] > LEDGER_TOTAL_MAX)
        return SEGMENT_DIRTY;
    hold->taken = (uint32_t)values[2];
    hold->settled = (uint64_t)values[3];
    hold->left = (uint32_t)values[4];
    sale_hint_set(hold->sale, hold->segment, hold->left);
    if (knows_too_few(hold)) {
        hold->taken = 0; /* the recovery counts them */
        return SEGMENT_DIRTY;
    }
    return hold->taken > 0 ? SEGMENT_TAKEN : SEGMENT_EMPTY;
}

void segment_read_take(struct stock *stock, struct segment_hold *hold)
{
    read_lock(stock, hold);
    if (hold->state == SEGMENT_DIRTY)
        hold->state = taken_state(hold, &stock->calls[hold->call]);
}

static enum segment_state opened_state(struct segment_hold *hold, const struct script_call *open)
{
    if (open->result == REDIS_UNKNOWN)
        return SEGMENT_DOUBT;
    if (open->result != REDIS_ANSWERED || open->values[0] == OPEN_LOST)
        return SEGMENT_BUSY; /* nothing may change without the mark */
    if (open->values[0] != OPEN_MARKED || open->values[1] < 0 || open->values[2] < 0 ||
        open->values[2] > LEDGER_TOTAL_MAX)
        return SEGMENT_DIRTY;
    hold->settled = (uint64_t)open->values[1];
    hold->left = (uint32_t)open->values[2];
    return SEGMENT_TAKEN;
}

void segment_post_open(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                       const struct sale_snapshot *snapshot, uint32_t segment)
{
    assert(segment < snapshot->segments);
    char name[SECLOCK_NAME_MAX];
    begin_posted(stock, hold, sale, snapshot, segment, name);
    lock_redis_begin(&hold->lock, STOCK_PREFIX, name, stock->options.lease_ms, stock_call(stock));
    segment_call(stock, SCRIPT_stock_open, &hold->lock);
}

void segment_read_open(struct stock *stock, struct segment_hold *hold)
{
    read_lock(stock, hold);
    if (hold->state == SEGMENT_DIRTY)
        hold->state = opened_state(hold, &stock->calls[hold->call + 1]);
}

void segment_post_mark(struct stock *stock, struct segment_hold *hold)
{
    assert(hold->lock.state != SECLOCK_STATE_RELEASED);
    hold->call = stock->call_count;
    segment_call(stock, SCRIPT_stock_open, &hold->lock);
}

bool segment_read_mark(struct stock *stock, struct segment_hold *hold)
{
    assert(stock->call_count == 0);
    hold->state = opened_state(hold, &stock->calls[hold->call]);
    return hold->state == SEGMENT_TAKEN || hold->state == SEGMENT_DIRTY;
}

/* Posts the next call, which also releases the lock, for the caller to complete. If the lease has
 * run out and the lock is lost, the script finds another token. */
static struct script_call *post_end(struct stock *stock, enum script_id id, struct lock_hold *lock)
{
    assert(lock->state != SECLOCK_STATE_RELEASED);
    lock->state = SECLOCK_STATE_RELEASED;
    return segment_call(stock, id, lock);
}

void segment_post_settle(struct stock *stock, struct segment_hold *hold, uint64_t fence,
                         uint32_t back)
{
    assert(hold->state == SEGMENT_TAKEN && hold->used <= hold->taken && back <= hold->taken);
    assert(fence >= hold->settled); /* a segment's fence never goes back */
    struct script_call *call = post_end(stock, SCRIPT_stock_settle, &hold->lock);
    script_int(call, (int64_t)fence);
    script_int(call, back);
    if (hold->sale)
        sale_hint_set(hold->sale, hold->segment, hold->left + back);
    hold->state = SEGMENT_ENDED;
}

void segment_post_load(struct stock *stock, struct lock_hold *lock, uint32_t available,
                       uint32_t round, uint64_t fence)
{
    assert(round > 0);
    struct script_call *call = post_end(stock, SCRIPT_stock_load, lock);
    script_int(call, available);
    script_int(call, round);
    script_int(call, (int64_t)fence);
}

void segment_post_retire(struct stock *stock, struct lock_hold *lock)
{
    post_end(stock, SCRIPT_stock_retire, lock);
}

void segment_post_fence(struct stock *stock, const struct lock_hold *lock, uint64_t fence)
{
    assert(fence > 0);
    char key[SCRIPT_KEY_MAX];
    struct script_call *call = stock_call(stock);
    script_begin(call, SCRIPT_fence_raise);
    lock_redis_key(STOCK_PREFIX, lock->name, "fence", key);
    script_key(call, key);
    script_int(call, (int64_t)fence);
}

void segment_post_release(struct stock *stock, struct segment_hold *hold)
{
    assert(hold->state != SEGMENT_POSTED && hold->state != SEGMENT_ENDED);
    lock_redis_end(&hold->lock, stock_call(stock));
    hold->state = SEGMENT_ENDED;
}

void segment_give_back(struct stock *stock, struct segment_hold *hold)
{
    if (hold->state == SEGMENT_TAKEN)
        segment_post_settle(stock, hold, hold->settled, hold->taken);
    else
        segment_post_release(stock, hold);
}

/* ---- recovery ---- */

void recovery_load(struct stock *stock, struct segment_hold *hold, const struct ledger_segment *row)
{
    assert(hold->state == SEGMENT_DIRTY && hold->segment == row->segment);
    if (row->round == 0) {
        /* The ledger does not have the segment (any more): the sale has fewer, or is retired. */
        sale_hint_set(hold->sale, hold->segment, 0);
        segment_post_retire(stock, &hold->lock);
    } else if (row->fence > hold->lock.fence) {
        /* Redis forgot fences that the ledger has seen: the next acquisition gets a greater one. */
        segment_post_fence(stock, &hold->lock, row->fence);
        sale_hint_set(hold->sale, hold->segment, row->capacity);
        segment_post_release(stock, hold);
    } else {
        /* The ledger has this hold's fence from now on, so no update of an earlier round can pass
         * its guard: the row is final until somebody takes from the segment. */
        assert(row->sold <= row->capacity);
        segment_post_load(stock, &hold->lock, row->capacity - row->sold, row->round, row->fence);
        sale_hint_set(hold->sale, hold->segment, row->capacity - row->sold);
    }
    hold->state = SEGMENT_ENDED;
}

bool recovery_run(struct stock *stock, struct segment_hold *const *dirty, size_t count,
                  bool *stale_out)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    assert(count > 0 && count <= LEDGER_SEGMENTS_MAX);
    for (size_t i = 0; i < count; i++) {
        assert(dirty[i]->state == SEGMENT_DIRTY && dirty[i]->sale == dirty[0]->sale);
        rows[i].segment = dirty[i]->segment;
        rows[i].fence = dirty[i]->lock.fence;
    }
    /* Before the loads: from now on the ledger accepts no update of an earlier holder. */
    enum ledger_result result =
        ledger_recover(stock->ledger, sale_sku(dirty[0]->sale), rows, count);
    *stale_out = false;
    for (size_t i = 0; i < count; i++) {
        if (result == LEDGER_OK) {
            *stale_out |= rows[i].round != dirty[i]->round;
            stock->stats.recoveries += rows[i].round != 0 && rows[i].fence == dirty[i]->lock.fence;
            recovery_load(stock, dirty[i], &rows[i]);
        } else {
            segment_post_release(stock, dirty[i]);
        }
        assert(dirty[i]->state == SEGMENT_ENDED); /* its lock is released either way */
    }
    return result == LEDGER_OK;
}
