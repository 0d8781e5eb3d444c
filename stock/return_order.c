/* An order that is paid or cancelled; the units of a cancelled one can be sold again at once. */
#include "stock/return_order.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "stock/return_batch.h"

enum { FAILURES_MAX = 3 }; /* of Redis or the ledger that one call rides out */

/* Repeats a call until the order's status is known, or the time is over, or nothing can be
 * reached. */
struct trial {
    int64_t until_ns;
    int64_t resolve_until_ns; /* the same, once a try is in doubt: then it must be found out */
    int failures;
    bool doubt; /* a try has changed the order, or may have */
};

static struct trial trial_of(const struct stock *stock, int wait_ms)
{
    int64_t now_ns = clock_now_ns();
    return (struct trial){
        .until_ns = now_ns + wait_ms * CLOCK_NS_PER_MS,
        .resolve_until_ns = now_ns + stock->options.resolve_ms * CLOCK_NS_PER_MS,
    };
}

static bool trial_goes_on(struct stock *stock, struct trial *trial, enum stock_state_result *result)
{
    if (*result != STOCK_STATE_BUSY && *result != STOCK_STATE_FAILED &&
        *result != STOCK_STATE_IN_DOUBT)
        return false;
    trial->doubt |= *result == STOCK_STATE_IN_DOUBT;
    trial->failures += *result == STOCK_STATE_FAILED;
    assert(trial->failures <= FAILURES_MAX || trial->doubt);
    bool hopeless = trial->failures == FAILURES_MAX && !trial->doubt;
    if (hopeless || clock_now_ns() > (trial->doubt ? trial->resolve_until_ns : trial->until_ns)) {
        *result = trial->doubt ? STOCK_STATE_IN_DOUBT : *result;
        return false;
    }
    return_batch_pause(stock);
    return true;
}

enum stock_state_result stock_cancel(struct stock *stock, uint64_t order_id, int wait_ms,
                                     struct ledger_record *record_out, bool *moved_out)
{
    struct trial trial = trial_of(stock, wait_ms);
    enum stock_state_result result = STOCK_STATE_BUSY;
    struct return_batch *batch = malloc(sizeof *batch);
    if (!batch)
        abort();
    do {
        result = return_batch_try_order(stock, batch, order_id, LEDGER_CANCELLED, record_out);
        trial.doubt |= batch->returned.moved > 0;
    } while (trial_goes_on(stock, &trial, &result));
    *moved_out = result == STOCK_STATE_OK && trial.doubt;
    free(batch);
    return result;
}

/* Tries to pay once. An order that is reserved and yet refuses is overdue by the ledger's clock,
 * though nobody has expired it yet. */
static enum stock_state_result pay(struct stock *stock, uint64_t order_id,
                                   struct ledger_record *record_out, struct trial *trial)
{
    enum ledger_result paid = ledger_pay(stock->ledger, order_id);
    if (paid != LEDGER_OK && paid != LEDGER_NO)
        return paid == LEDGER_UNKNOWN ? STOCK_STATE_IN_DOUBT : STOCK_STATE_FAILED;
    trial->doubt |= paid == LEDGER_OK;
    enum stock_state_result result =
        return_batch_fetch_order(stock, order_id, LEDGER_PAID, record_out);
    return result == STOCK_STATE_BUSY ? STOCK_STATE_REFUSED : result;
}

/* A payment that was not answered is repeated: the repeat waits in the ledger for the first to
 * end. */
enum stock_state_result stock_pay(struct stock *stock, uint64_t order_id,
                                  struct ledger_record *record_out, bool *moved_out)
{
    struct trial trial = trial_of(stock, stock->options.resolve_ms);
    enum stock_state_result result = STOCK_STATE_BUSY;
    do
        result = pay(stock, order_id, record_out, &trial);
    while (trial_goes_on(stock, &trial, &result));
    *moved_out = result == STOCK_STATE_OK && trial.doubt;
    return result;
}
