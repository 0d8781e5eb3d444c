/* Tries a call again while servers fail, rows are held or a commit is in doubt. */
#include "stock/returns/trial.h"

#include <assert.h>

#include "base/clock.h"
#include "stock/stock_core.h"

enum { FAILURES_MAX = 3 }; /* of Redis or the ledger that one call survives */

struct trial trial_of(const struct stock *stock, struct stock_status_change *changes, size_t count,
                      int wait_ms)
{
    int64_t now_ns = clock_now_ns();
    struct trial trial = {
        .open_count = count,
        .until_ns = now_ns + wait_ms * CLOCK_NS_PER_MS,
        .resolve_until_ns = now_ns + stock->options.resolve_ms * CLOCK_NS_PER_MS,
    };
    assert(count > 0 && count <= STOCK_CHANGES_MAX);
    for (size_t i = 0; i < count; i++) {
        changes[i].moved = changes[i].told = changes[i].doubt = changes[i].payment.unnamed = false;
        changes[i].payment.state = LEDGER_PAYMENT_NONE;
        trial.open[i] = &changes[i];
    }
    return trial;
}

void trial_set_all(struct trial *trial, enum stock_state_result result)
{
    for (size_t i = 0; i < trial->open_count; i++)
        trial->open[i]->result = result;
}

static bool is_open(enum stock_state_result result)
{
    return result == STOCK_STATE_BUSY || result == STOCK_STATE_FAILED ||
           result == STOCK_STATE_IN_DOUBT;
}

/* A try in doubt that has ended the order, or written its payment, shows in every later state of
 * them. Not so if it has extended the order, or made it smaller: a refusal then tells nothing. */
static void settle(const struct trial *trial, struct stock_status_change *change)
{
    bool done = change->result == STOCK_STATE_OK;
    bool hidden = trial->extends || change->keep > 0 || change->result == STOCK_STATE_DAMAGED;
    if (change->doubt && hidden && !done)
        change->result = STOCK_STATE_IN_DOUBT;
    else if (change->doubt) {
        change->moved |= done;
        change->told |= change->payment.state == LEDGER_PAYMENT_DUE ||
                        (done && change->payment.state != LEDGER_PAYMENT_NONE);
    }
}

bool trial_goes_on(struct stock *stock, struct trial *trial)
{
    bool doubt = false, failed = false;
    size_t kept = 0;
    for (size_t i = 0; i < trial->open_count; i++) {
        struct stock_status_change *change = trial->open[i];
        change->doubt |= change->result == STOCK_STATE_IN_DOUBT;
        if (!is_open(change->result)) {
            settle(trial, change);
            continue;
        }
        doubt |= change->doubt;
        failed |= change->result == STOCK_STATE_FAILED;
        trial->open[kept++] = change;
    }
    trial->decided |= kept < trial->open_count;
    trial->open_count = kept;
    trial->failures += failed;
    bool hopeless = trial->failures >= FAILURES_MAX;
    bool enough = trial->decided && !failed;
    int64_t now_ns = clock_now_ns();
    bool again = doubt ? now_ns < trial->resolve_until_ns
                       : kept > 0 && !hopeless && !enough && now_ns < trial->until_ns;
    if (again)
        returns_pause(stock);
    for (size_t i = 0; i < kept && !again; i++)
        if (trial->open[i]->doubt)
            trial->open[i]->result = STOCK_STATE_IN_DOUBT;
    return again;
}

struct ledger_record *const *trial_records(struct trial *trial,
                                           struct ledger_record *records[STOCK_CHANGES_MAX])
{
    for (size_t i = 0; i < trial->open_count; i++)
        records[i] = &trial->open[i]->record;
    return records;
}

struct ledger_payment *const *trial_payments(struct trial *trial,
                                             struct ledger_payment *payments[STOCK_CHANGES_MAX])
{
    for (size_t i = 0; i < trial->open_count; i++)
        payments[i] = &trial->open[i]->payment;
    return payments;
}
