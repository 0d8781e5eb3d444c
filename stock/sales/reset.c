/* Begins a sale's next round, or its first.
 *
 *   was it done under its key? ─► may it be done? ─► lock all segments ─► may it still be done?
 *     ─► mark them open ─► ledger, one transaction: key · sale · segments · the old round's end
 *     ─► load Redis, and release ─► publish ─► end reserved orders of the old round, a first part
 *
 * why_key_last: a reset with a key is refused only if its key was looked up after the reason was
 * found. Otherwise its first try, under way, could be carried out between the two, and its repeat
 * would be refused.
 *
 * why_in_parts: the reserved orders of the old round may be a million. The transaction that begins
 * the new round makes them all not payable at once (ledger_status), and notes that they must
 * expire; they expire in pieces, here for a moment and then in stock_round_end. */
#include "stock/sales/sales.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "stock/sales/lock.h"

enum {
    END_MS = 250,    /* the reset's own time for ending orders: the operator waits */
    COUNT_MS = 1000, /* for counting the orders that it would end, before it refuses */
};

struct resetting {
    struct sale_change change;
    const struct stock_reset *asked;
    char request[LEDGER_RESET_TEXT_MAX];
    struct ledger_round_use *use_out;
    uint64_t *ended_out;
};

/* Writes the request as text, to be compared when its key is used again. */
static void write_request(struct resetting *resetting)
{
    const struct stock_reset *asked = resetting->asked;
    const struct ledger_settings *to = &asked->change.settings;
    int length =
        snprintf(resetting->request, sizeof resetting->request,
                 "total=%u segments=%u fields=%u starts=%lld ends=%lld limit=%u pay=%u paused=%d "
                 "if_round=%lld end_round=%d",
                 asked->total, asked->segments, asked->change.fields, (long long)to->starts_ms,
                 (long long)to->ends_ms, to->per_user_limit, to->pay_within_s, to->paused,
                 asked->only_if ? (long long)asked->if_round : -1, asked->end_round);
    assert(length > 0 && length < LEDGER_RESET_TEXT_MAX);
    /* Named only where the call names one: former versions wrote the rest alone. */
    if (asked->change.fields & (STOCK_CHANGE_LATE | STOCK_CHANGE_HOLD | STOCK_CHANGE_GRACE))
        length +=
            snprintf(resetting->request + length, sizeof resetting->request - (size_t)length,
                     " late=%d hold=%u grace=%u", to->refund_late, to->hold_max_s, to->grace_s);
    assert(length < LEDGER_RESET_TEXT_MAX);
}

/* Looks for a reset made under the key. False: there is none, or no key. The process that made it
 * may have died before it published the round. */
static bool find_key(struct stock *stock, struct resetting *resetting,
                     enum stock_admin_result *result_out)
{
    const char *sku = resetting->asked->sku;
    struct ledger_sale now = {.round = 0}, *then = resetting->change.sale;
    char request[LEDGER_RESET_TEXT_MAX];
    bool retired = false;
    if (!resetting->asked->key || resetting->asked->key[0] == '\0')
        return false;
    *result_out = STOCK_ADMIN_FAILED;
    enum ledger_result found =
        ledger_reset_find(stock->ledger, sku, resetting->asked->key, then, request, &retired);
    uint64_t connection = ledger_connection(stock->ledger);
    if (found == LEDGER_NO)
        return false;
    /* The reset may be visible and not on disk yet, and so may the sale's present row. */
    enum ledger_result present =
        found == LEDGER_OK ? ledger_sale_find(stock->ledger, sku, &now) : found;
    if ((present != LEDGER_OK && present != LEDGER_NO) ||
        ledger_confirm(stock->ledger, connection) != LEDGER_OK)
        return true;
    *result_out = STOCK_ADMIN_KEY_REUSED;
    if (strcmp(request, resetting->request) != 0)
        return true;
    *result_out = retired ? STOCK_ADMIN_KEY_OVER : STOCK_ADMIN_OK;
    if (!retired && now.round == then->round) {
        *then = now;
        sale_publish(stock, then);
    }
    return true;
}

/* Reads the present sale; all zero but its sku when it does not exist. */
static enum ledger_result read_sale(struct stock *stock, const char *sku, struct ledger_sale *sale)
{
    *sale = (struct ledger_sale){.round = 0};
    enum ledger_result found = ledger_sale_find(stock->ledger, sku, sale);
    snprintf(sale->sku, sizeof sale->sku, "%s", sku);
    return found == LEDGER_NO ? LEDGER_OK : found;
}

/* Returns STOCK_ADMIN_OK, or why the present sale forbids the reset. */
static enum stock_admin_result check(const struct stock_reset *asked, const struct ledger_sale *now)
{
    struct ledger_settings settings = now->settings;
    stock_change_apply(&settings, &asked->change);
    bool keeps_end = !(asked->change.fields & STOCK_CHANGE_ENDS);
    if (asked->only_if && asked->if_round != now->round)
        return STOCK_ADMIN_OTHER_ROUND;
    if (now->sold > 0 && !asked->end_round)
        return STOCK_ADMIN_ROUND_IN_USE;
    if (settings.ends_ms != 0 && settings.ends_ms <= settings.starts_ms)
        return STOCK_ADMIN_WINDOW;
    if (settings.ends_ms != 0 && keeps_end && settings.ends_ms <= asked->now_ms)
        return STOCK_ADMIN_ENDED;
    return STOCK_ADMIN_OK;
}

/* Refuses a reset that the present sale forbids. */
static enum stock_admin_result refuse(struct stock *stock, struct resetting *resetting,
                                      const struct ledger_sale *now, enum stock_admin_result why)
{
    assert(why != STOCK_ADMIN_OK);
    enum stock_admin_result done = STOCK_ADMIN_FAILED;
    if (find_key(stock, resetting, &done))
        return done;
    int64_t until_ns = clock_now_ns() + COUNT_MS * CLOCK_NS_PER_MS;
    if (why == STOCK_ADMIN_ROUND_IN_USE &&
        !stock_round_use(stock, now, until_ns, resetting->use_out))
        return STOCK_ADMIN_FAILED;
    *resetting->change.sale = *now;
    return why;
}

/* Begins the round in one transaction under the locks, and releases them. `sale` in: the present
 * sale; out: the sale in the new round. `held_out`: units that orders of the old round hold. */
static enum ledger_result reset_locked(struct stock *stock, const struct resetting *resetting,
                                       struct sale_lock *locked, struct ledger_sale *sale,
                                       uint32_t *held_out)
{
    const struct stock_reset *asked = resetting->asked;
    uint64_t fences[LEDGER_SEGMENTS_MAX];
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    struct ledger_reset reset = {.key = asked->key,
                                 .request = resetting->request,
                                 .fences = fences,
                                 .end_round = asked->end_round};
    assert(locked->count >= asked->segments && locked->count >= sale->segments);
    sale->total = asked->total;
    sale->segments = asked->segments;
    stock_change_apply(&sale->settings, &asked->change);
    enum ledger_result result = LEDGER_FAILED;
    if (sale_lock_mark(stock, locked, fences))
        result = ledger_reset(stock->ledger, &reset, sale, rows);
    sale_lock_end(stock, locked, result, sale, rows);
    *held_out = reset.held;
    return result;
}

/* Translates the ledger's answer. Once the new round is open, ends a part of the old one's orders,
 * mostly all, while the operator waits. */
static enum stock_admin_result conclude(struct stock *stock, struct resetting *resetting,
                                        enum ledger_result result, uint32_t held,
                                        const struct ledger_sale *sale)
{
    if (result == LEDGER_OK)
        *resetting->change.sale = *sale;
    if (result == LEDGER_OK && held > 0)
        stock_round_end(stock, clock_now_ns() + END_MS * CLOCK_NS_PER_MS, resetting->ended_out);
    return sale_change_result(&resetting->change, result);
}

/* Checks the sale before the locks, as a refusal needs none, and again under them. If the sale has
 * got more segments than were locked, the next try locks more. */
static enum stock_admin_result try_once(struct stock *stock, struct sale_change *change,
                                        struct sale_lock *locked)
{
    struct resetting *resetting = (struct resetting *)change;
    const struct stock_reset *asked = resetting->asked;
    struct ledger_sale sale;
    uint32_t held = 0;
    enum stock_admin_result result = STOCK_ADMIN_OK;
    if (find_key(stock, resetting, &result))
        return result;
    if (read_sale(stock, asked->sku, &sale) != LEDGER_OK)
        return STOCK_ADMIN_FAILED;
    result = check(asked, &sale);
    if (result != STOCK_ADMIN_OK)
        return refuse(stock, resetting, &sale, result);
    size_t count = sale.segments > asked->segments ? sale.segments : asked->segments;
    result = sale_lock_acquire_first(stock, asked->sku, count, change->wait_ms, locked);
    if (result != STOCK_ADMIN_OK)
        return result;
    enum ledger_result found = read_sale(stock, asked->sku, &sale);
    if (found == LEDGER_OK)
        result = check(asked, &sale);
    change->again = found == LEDGER_OK && sale.segments > count;
    if (result == STOCK_ADMIN_OK && !sale_cache_find(stock->sale_cache, asked->sku) &&
        sale_cache_full(stock->sale_cache))
        result = STOCK_ADMIN_FULL;
    if (found == LEDGER_OK && !change->again && result == STOCK_ADMIN_OK) {
        enum ledger_result done = reset_locked(stock, resetting, locked, &sale, &held);
        return conclude(stock, resetting, done, held, &sale);
    }
    sale_lock_release(stock, locked);
    if (found != LEDGER_OK || change->again)
        return found != LEDGER_OK ? STOCK_ADMIN_FAILED : STOCK_ADMIN_BUSY;
    return refuse(stock, resetting, &sale, result);
}

enum stock_admin_result stock_reset(struct stock *stock, const struct stock_reset *reset,
                                    int wait_ms, struct ledger_sale *sale_out,
                                    struct ledger_round_use *use_out, uint64_t *ended_out)
{
    struct resetting resetting = {
        .change = {reset->sku, reset->key, wait_ms, sale_out, try_once, false},
        .asked = reset,
        .use_out = use_out,
        .ended_out = ended_out,
    };
    assert(reset->segments > 0 && reset->segments <= LEDGER_SEGMENTS_MAX);
    assert(reset->segments <= reset->total);
    *ended_out = 0;
    write_request(&resetting);
    return sale_change_run(stock, &resetting.change);
}
