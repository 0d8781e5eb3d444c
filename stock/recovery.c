/* Segments set again from the ledger, under their locks. */
#include "stock/recovery.h"

#include <assert.h>

#include "sql/orders/ledger_recovery.h"

void recovery_load(struct stock *stock, struct segment_hold *hold, const struct ledger_segment *row)
{
    assert(hold->state == SEGMENT_DIRTY && hold->segment == row->segment);
    if (row->round == 0) {
        /* The ledger has no such segment (any more): the sale has fewer, or is retired. */
        sale_hint_set(hold->sale, hold->segment, 0);
        segment_post_retire(stock, &hold->lock);
        hold->state = SEGMENT_ENDED;
        return;
    } else if (row->fence > hold->lock.fence) {
        /* Redis forgot fences that the ledger has seen: the next acquisition gets a greater one. */
        segment_post_fence(stock, &hold->lock, row->fence);
        sale_hint_set(hold->sale, hold->segment, row->capacity);
    } else {
        /* The ledger has this hold's fence from now on, so no update of an earlier round can pass
         * its guard any more: what the row says here is final until somebody takes from the
         * segment. */
        assert(row->sold <= row->capacity);
        segment_post_load(stock, &hold->lock, row->capacity - row->sold, row->round, row->fence);
        sale_hint_set(hold->sale, hold->segment, row->capacity - row->sold);
        hold->state = SEGMENT_ENDED;
        return;
    }
    segment_post_release(stock, hold);
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
    /* Before the segments are loaded: from now on no update of a holder before this one is
     * accepted. */
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
    }
    return result == LEDGER_OK;
}
