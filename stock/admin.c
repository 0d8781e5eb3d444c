/* Resetting a sale and comparing it with the ledger, each under the locks of all its segments. */
#include "stock/admin.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lock/redis_pipeline.h"
#include "sql/ledger_recovery.h"
#include "sql/ledger_reset.h"
#include "sql/ledger_settings.h"
#include "stock/segment.h"

enum {
    RESET_TRIES_MAX = 5,
    CHANGE_TRIES_MAX = 20, /* changes of others that came in between */
};

void admin_freshen(struct stock *stock)
{
    stock_ping_redis(stock);
    stock_ping_ledger(stock);
}

static enum seclock_result lock_all(struct stock *stock, const char *sku, size_t count, int wait_ms,
                                    struct locked *locked)
{
    locked->count = count;
    for (size_t i = 0; i < count; i++) {
        segment_name(sku, (uint32_t)i, locked->names[i]);
        locked->requests[i] =
            SECLOCK_REQUEST(.name = locked->names[i], .kind = SECLOCK_KIND_SIMPLE);
        locked->members[i] =
            (struct seclock_member){.client = stock_locks(stock), .request = &locked->requests[i]};
    }
    enum seclock_result result =
        seclock_multi_acquire(locked->members, count, wait_ms, locked->handles);
    for (size_t i = 0; i < count && result == SECLOCK_OK; i++)
        lock_redis_copy(locked->handles[i], &locked->holds[i]);
    return result;
}

bool admin_unlock(struct stock *stock, struct locked *locked)
{
    for (size_t i = 0; i < locked->count; i++)
        if (locked->holds[i].state != SECLOCK_STATE_RELEASED)
            lock_redis_end(&locked->holds[i], stock_call(stock));
    size_t count = stock->call_count;
    bool done = stock_run_calls(stock);
    for (size_t i = 0; i < count; i++)
        done = done && stock->calls[i].result == REDIS_ANSWERED && stock->calls[i].values[0] != 0;
    seclock_multi_free(locked->handles, locked->count);
    return done;
}

/* The segments that there are or will be: both rounds' are locked. */
static enum ledger_result segments_to_lock(struct stock *stock, const char *sku, uint32_t wanted,
                                           size_t *count_out)
{
    struct ledger_sale row = {.segments = 0};
    enum ledger_result result = ledger_sale_find(stock->ledger, sku, &row);
    *count_out = row.segments > wanted ? row.segments : wanted;
    return result == LEDGER_NO ? LEDGER_OK : result;
}

void admin_post_round(struct stock *stock, struct locked *locked, const struct ledger_sale *sale,
                      const struct ledger_segment *segments)
{
    for (size_t i = 0; i < locked->count; i++) {
        struct lock_hold *lock = &locked->holds[i];
        if (i >= sale->segments) {
            segment_post_drop(stock, lock);
            continue;
        }
        if (segments[i].fence > lock->fence)
            segment_post_fence(stock, lock, segments[i].fence);
        segment_post_load(stock, lock, segments[i].capacity - segments[i].sold, sale->round,
                          segments[i].fence);
    }
}

void admin_announce(struct stock *stock, const struct ledger_sale *row)
{
    struct sale *sale = catalog_put(stock->catalog, row);
    if (sale)
        sale_forget_left(sale);
    redis_publish(stock->redis, STOCK_CHANNEL, row->sku);
}

static enum stock_admin_result reset_locked(struct stock *stock, struct ledger_sale *sale,
                                            struct locked *locked)
{
    uint64_t fences[LEDGER_SEGMENTS_MAX];
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    if (!catalog_find(stock->catalog, sale->sku) && catalog_count(stock->catalog) >= SALES_MAX) {
        admin_unlock(stock, locked);
        return STOCK_ADMIN_FULL;
    }
    for (size_t i = 0; i < locked->count; i++)
        fences[i] = locked->holds[i].fence;
    enum ledger_result result = ledger_reset(stock->ledger, sale, fences, rows);
    if (result == LEDGER_OK)
        admin_post_round(stock, locked, sale, rows);
    admin_unlock(stock, locked);
    if (result == LEDGER_OK)
        admin_announce(stock, sale);
    return result == LEDGER_OK        ? STOCK_ADMIN_OK
           : result == LEDGER_UNKNOWN ? STOCK_ADMIN_IN_DOUBT
                                      : STOCK_ADMIN_FAILED;
}

static enum stock_admin_result lock_failed(enum seclock_result result)
{
    return result == SECLOCK_TIMEOUT ? STOCK_ADMIN_BUSY : STOCK_ADMIN_FAILED;
}

enum stock_admin_result stock_reset(struct stock *stock, struct ledger_sale *sale, int wait_ms)
{
    struct locked *locked = malloc(sizeof *locked);
    enum stock_admin_result result = STOCK_ADMIN_BUSY;
    size_t wanted = 0;
    if (!locked)
        abort();
    admin_freshen(stock);
    for (int tries = 0; tries < RESET_TRIES_MAX && result == STOCK_ADMIN_BUSY; tries++) {
        enum ledger_result found = segments_to_lock(stock, sale->sku, sale->segments, &wanted);
        if (found != LEDGER_OK) {
            result = STOCK_ADMIN_FAILED;
            break;
        }
        enum seclock_result locks = lock_all(stock, sale->sku, wanted, wait_ms, locked);
        if (locks != SECLOCK_OK) {
            result = lock_failed(locks);
            break;
        }
        /* Somebody may have reset it to more segments before we had the locks: then lock more. */
        found = segments_to_lock(stock, sale->sku, sale->segments, &wanted);
        if (found == LEDGER_OK && wanted <= locked->count) {
            result = reset_locked(stock, sale, locked);
        } else {
            admin_unlock(stock, locked);
            result = found == LEDGER_OK ? STOCK_ADMIN_BUSY : STOCK_ADMIN_FAILED;
        }
    }
    free(locked);
    return result;
}

/* ---- terms ---- */

static void change_terms(struct ledger_settings *terms, const struct stock_change *change)
{
    const struct ledger_settings *to = &change->terms;
    if (change->fields & STOCK_CHANGE_STARTS)
        terms->starts_ms = to->starts_ms;
    if (change->fields & STOCK_CHANGE_ENDS)
        terms->ends_ms = to->ends_ms;
    if (change->fields & STOCK_CHANGE_LIMIT)
        terms->per_user_limit = to->per_user_limit;
    if (change->fields & STOCK_CHANGE_PAY)
        terms->pay_within_s = to->pay_within_s;
    if (change->fields & STOCK_CHANGE_PAUSED)
        terms->paused = to->paused;
}

enum stock_admin_result stock_change(struct stock *stock, const char *sku,
                                     const struct stock_change *change,
                                     struct ledger_sale *sale_out)
{
    enum ledger_result result = LEDGER_NO;
    admin_freshen(stock);
    for (int tries = 0; tries < CHANGE_TRIES_MAX && result == LEDGER_NO; tries++) {
        result = ledger_sale_find(stock->ledger, sku, sale_out);
        if (result != LEDGER_OK)
            return result == LEDGER_NO ? STOCK_ADMIN_NO_SALE : STOCK_ADMIN_FAILED;
        struct ledger_settings *terms = &sale_out->settings;
        bool unlimited = terms->per_user_limit == 0;
        change_terms(terms, change);
        if (terms->ends_ms != 0 && terms->ends_ms <= terms->starts_ms)
            return STOCK_ADMIN_WINDOW;
        result = ledger_settings_change(stock->ledger, sku, terms,
                                        unlimited && terms->per_user_limit > 0);
    }
    if (result == LEDGER_OK)
        admin_announce(stock, sale_out);
    return result == LEDGER_OK        ? STOCK_ADMIN_OK
           : result == LEDGER_UNKNOWN ? STOCK_ADMIN_IN_DOUBT
           : result == LEDGER_NO      ? STOCK_ADMIN_BUSY
                                      : STOCK_ADMIN_FAILED;
}

/* ---- reconcile ---- */

static void post_read(struct stock *stock, const struct lock_hold *lock)
{
    char key[SCRIPT_KEY_MAX];
    struct script_call *call = stock_call(stock);
    script_begin(call, SCRIPT_stock_read);
    lock_redis_key(STOCK_PREFIX, lock->name, "segment", key);
    script_key(call, key);
}

/* Compares one segment; true when it differs. */
static bool differs(const struct script_call *redis, const struct ledger_segment *row,
                    struct stock_difference *difference)
{
    bool present = redis->values[0] == 1;
    difference->segment = row->segment;
    difference->redis_available = present ? redis->values[1] : -1;
    difference->ledger_available = (int64_t)row->capacity - row->sold;
    if (!present)
        difference->reason = STOCK_MISSING;
    else if (redis->values[2] != row->round)
        difference->reason = STOCK_OTHER_ROUND;
    else if (redis->values[3] != 0)
        difference->reason = STOCK_DIRTY;
    else if (redis->values[1] != difference->ledger_available)
        difference->reason = STOCK_MISMATCH;
    else
        return false;
    return true;
}

/* Raises the ledger's fences to those of the locks, so that no older round can commit any more, and
 * reads the segments. */
static bool read_ledger(struct stock *stock, const char *sku, const struct locked *locked,
                        struct ledger_segment *rows)
{
    for (size_t i = 0; i < locked->count; i++) {
        rows[i].segment = (uint32_t)i;
        rows[i].fence = locked->holds[i].fence;
    }
    return ledger_recover(stock->ledger, sku, rows, locked->count) == LEDGER_OK;
}

static bool reconcile_locked(struct stock *stock, const char *sku, struct locked *locked,
                             struct stock_report *report)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    if (!read_ledger(stock, sku, locked, rows))
        return false;
    for (size_t i = 0; i < locked->count; i++)
        post_read(stock, &locked->holds[i]);
    if (!stock_run_calls(stock))
        return false;
    report->round = rows[0].round;
    report->segments = (uint32_t)locked->count;
    for (size_t i = 0; i < locked->count; i++)
        if (differs(&stock->calls[i], &rows[i], &report->differences[report->difference_count]))
            report->difference_count++;
    /* The ledger's fences have moved, so every segment is loaded again, not just those that differ.
     */
    for (size_t i = 0; i < locked->count; i++) {
        if (rows[i].fence > locked->holds[i].fence)
            segment_post_fence(stock, &locked->holds[i], rows[i].fence);
        segment_post_load(stock, &locked->holds[i], rows[i].capacity - rows[i].sold, rows[i].round,
                          rows[i].fence);
    }
    return true;
}

/* Somebody may reset it to more or fewer segments before the locks are held: then once more. */
enum stock_admin_result admin_lock(struct stock *stock, const char *sku, int wait_ms,
                                   struct locked *locked)
{
    struct sale *sale = NULL;
    for (int tries = 0; tries < RESET_TRIES_MAX; tries++) {
        enum ledger_result found = stock_sale_reload(stock, sku, &sale);
        if (found != LEDGER_OK)
            return found == LEDGER_NO ? STOCK_ADMIN_NO_SALE : STOCK_ADMIN_FAILED;
        enum seclock_result locks = lock_all(stock, sku, sale_view(sale).segments, wait_ms, locked);
        if (locks != SECLOCK_OK)
            return lock_failed(locks);
        found = stock_sale_reload(stock, sku, &sale);
        if (found == LEDGER_OK && sale_view(sale).segments == locked->count)
            return STOCK_ADMIN_OK;
        admin_unlock(stock, locked);
        if (found != LEDGER_OK)
            return STOCK_ADMIN_FAILED;
    }
    return STOCK_ADMIN_BUSY;
}

enum stock_admin_result stock_reconcile(struct stock *stock, const char *sku, int wait_ms,
                                        struct stock_report *report_out)
{
    struct locked *locked = malloc(sizeof *locked);
    if (!locked)
        abort();
    memset(report_out, 0, sizeof *report_out);
    admin_freshen(stock);
    enum stock_admin_result result = admin_lock(stock, sku, wait_ms, locked);
    if (result == STOCK_ADMIN_OK) {
        stock_flush(stock);
        bool done = reconcile_locked(stock, sku, locked, report_out);
        bool sent = admin_unlock(stock, locked);
        sale_forget_left(catalog_find(stock->catalog, sku));
        result = done && sent ? STOCK_ADMIN_OK : STOCK_ADMIN_FAILED;
    }
    free(locked);
    return result;
}
