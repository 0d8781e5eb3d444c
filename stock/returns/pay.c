/* Pays orders and extends their reservations, for clients.
 *
 *   ledger_pay: in time, already paid, too late? ─► an expired order needs its units again
 *     ─► stock_sell takes them and pays the order, as it accepts new ones
 *     ─► it cannot have them ─► ledger_pay: the payment is due back
 *
 * why_the_order_path: a late payment takes its units as any order does, under the same locks,
 * fences, limits and settings, so that it can break no promise that an order keeps. Only its row is
 * there already: the transaction moves it from expired to paid, and writes the payment. What the
 * ledger has said before decides nothing: the commit takes only an order that is expired then, and
 * no known payment. */
#include <string.h>

#include "base/memory.h"
#include "stock/returns/trial.h"
#include "stock/stock_core.h"

/* ---- paying in the ledger ---- */

static enum stock_state_result result_of(const struct stock_status_change *change)
{
    const struct ledger_record *record = &change->record;
    enum ledger_payment_state state = change->payment.state;
    bool named = ledger_payment_named(&change->payment);
    if (record->damaged)
        return STOCK_STATE_DAMAGED;
    if (record->status[0] == '\0')
        return STOCK_STATE_NO_ORDER;
    if (change->payment.late == LEDGER_LATE_NEEDS_UNITS)
        return STOCK_STATE_EXPIRED;
    /* Somebody is changing the order or its sale. A reserved order that is not payable is overdue,
     * or its round is over, though nobody has expired it yet. */
    if (named ? state == LEDGER_PAYMENT_NONE : record->payable)
        return STOCK_STATE_BUSY;
    bool paid = named ? state == LEDGER_PAYMENT_TAKEN
                      : strcmp(record->status, ledger_status_name(LEDGER_PAID)) == 0;
    return paid ? STOCK_STATE_OK : STOCK_STATE_REFUSED;
}

/* False, with the results set, when the ledger has not answered. */
static bool pay_in_ledger(struct stock *stock, struct trial *trial)
{
    struct ledger_record *records[STOCK_CHANGES_MAX];
    struct ledger_payment *payments[STOCK_CHANGES_MAX];
    enum ledger_result paid = ledger_pay(stock->ledger, trial_records(trial, records),
                                         trial_payments(trial, payments), trial->open_count);
    trial_set_all(trial, paid == LEDGER_UNKNOWN ? STOCK_STATE_IN_DOUBT : STOCK_STATE_FAILED);
    for (size_t i = 0; i < trial->open_count; i++) {
        struct stock_status_change *change = trial->open[i];
        if (paid == LEDGER_OK) {
            change->result = result_of(change);
            change->moved = change->payment.moved;
            change->told |= change->payment.told;
        } else if (paid == LEDGER_DAMAGED && change->record.damaged) {
            change->result = STOCK_STATE_DAMAGED; /* the next try pays the others */
        }
    }
    return paid == LEDGER_OK;
}

void stock_pay(struct stock *stock, struct stock_status_change *changes, size_t count, int wait_ms)
{
    struct trial trial = trial_of(stock, changes, count, wait_ms);
    do
        pay_in_ledger(stock, &trial);
    while (trial_goes_on(stock, &trial));
}

/* ---- units taken again ---- */

static void fill_order(struct stock_order *order, const struct stock_status_change *change)
{
    const struct ledger_record *record = &change->record;
    *order = (struct stock_order){.qty = record->qty,
                                  .round = record->round,
                                  .order_id = record->order_id,
                                  .created_ms = change->now_ms,
                                  .rate_passed = true,
                                  .payment_ref = change->payment.ref};
    memcpy(order->sku, record->sku, sizeof order->sku);
    memcpy(order->user_id, record->user_id, sizeof order->user_id);
}

static void read_order(struct stock_status_change *change, struct stock_order *order)
{
    change->result = STOCK_STATE_BUSY;
    switch (order->outcome) {
    case STOCK_ACCEPTED:
        change->payment.state = LEDGER_PAYMENT_TAKEN;
        change->payment.outcome = LEDGER_RETAKEN;
        change->moved = change->told = true;
        strcpy(change->record.status, ledger_status_name(LEDGER_PAID));
        change->result = STOCK_STATE_OK;
        break;
    case STOCK_IN_DOUBT:
        change->result = STOCK_STATE_IN_DOUBT;
        break;
    case STOCK_UNAVAILABLE:
        change->result = STOCK_STATE_FAILED;
        break;
    default:
        if (stock_outcome_refused(order->outcome))
            change->payment.late = LEDGER_LATE_NO_UNITS;
        break;
    }
    stock_order_clear(order);
}

/* Sells in pieces of what the strategy carries at a time. */
static void take_units(struct stock *stock, const struct trial *trial)
{
    size_t most = stock_batch_max(stock), count = trial->open_count;
    struct stock_order *orders = memory_must(malloc(count * sizeof *orders));
    struct stock_order *list[STOCK_CHANGES_MAX];
    for (size_t i = 0; i < count; i++) {
        fill_order(&orders[i], trial->open[i]);
        list[i] = &orders[i];
    }
    for (size_t at = 0; at < count; at += most)
        stock_sell(stock, list + at, count - at < most ? count - at : most);
    for (size_t i = 0; i < count; i++)
        read_order(trial->open[i], &orders[i]);
    stock_flush(stock); /* perhaps no next batch follows */
    free(orders);
}

/* Keeps the payments that have come so far. True: there are any. */
static bool keep(struct trial *trial, enum ledger_late late)
{
    size_t kept = 0;
    for (size_t i = 0; i < trial->open_count; i++)
        if (trial->open[i]->payment.late == late)
            trial->open[kept++] = trial->open[i];
    trial->open_count = kept;
    return kept > 0;
}

static void pay_late_once(struct stock *stock, const struct trial *trial)
{
    struct trial part = *trial;
    if (!pay_in_ledger(stock, &part) || !keep(&part, LEDGER_LATE_NEEDS_UNITS))
        return;
    take_units(stock, &part);
    if (keep(&part, LEDGER_LATE_NO_UNITS))
        pay_in_ledger(stock, &part);
}

void stock_pay_late(struct stock *stock, struct stock_status_change *changes, size_t count,
                    int wait_ms)
{
    struct trial trial = trial_of(stock, changes, count, wait_ms);
    do
        pay_late_once(stock, &trial);
    while (trial_goes_on(stock, &trial));
}

/* ---- extending ---- */

static enum stock_state_result result_of_extension(const struct stock_status_change *change)
{
    const struct ledger_record *record = &change->record;
    const struct ledger_extension *extension = &change->extension;
    char wanted[LEDGER_TIME_SIZE];
    ledger_time_format(extension->expires_ms, wanted);
    if (record->damaged)
        return STOCK_STATE_DAMAGED;
    if (record->status[0] == '\0')
        return STOCK_STATE_NO_ORDER;
    if (!record->payable)
        return STOCK_STATE_REFUSED;
    if (extension->limited)
        return STOCK_STATE_HOLD_LIMIT;
    /* Times of this form compare as texts. An earlier one changes nothing. */
    bool held = record->expires_at[0] == '\0' || strcmp(record->expires_at, wanted) >= 0;
    return held ? STOCK_STATE_OK : STOCK_STATE_BUSY;
}

static void extend_once(struct stock *stock, struct trial *trial)
{
    struct ledger_record *records[STOCK_CHANGES_MAX];
    struct ledger_extension *extensions[STOCK_CHANGES_MAX];
    for (size_t i = 0; i < trial->open_count; i++)
        extensions[i] = &trial->open[i]->extension;
    enum ledger_result result =
        ledger_extend(stock->ledger, trial_records(trial, records), extensions, trial->open_count);
    if (result != LEDGER_OK) {
        trial_set_all(trial, result == LEDGER_UNKNOWN ? STOCK_STATE_IN_DOUBT : STOCK_STATE_FAILED);
        return;
    }
    for (size_t i = 0; i < trial->open_count; i++) {
        trial->open[i]->result = result_of_extension(trial->open[i]);
        trial->open[i]->moved = extensions[i]->moved;
    }
}

void stock_extend(struct stock *stock, struct stock_status_change *changes, size_t count,
                  int wait_ms)
{
    struct trial trial = trial_of(stock, changes, count, wait_ms);
    trial.extends = true;
    do
        extend_once(stock, &trial);
    while (trial_goes_on(stock, &trial));
}
