/* Pays orders and extends their reservations, for clients.
 *
 *   late payments of expired orders ─► stock_sell takes their units again and pays them, as it
 *     accepts new orders
 *   all others, and those that cannot have units ─► ledger_pay: in time, already paid, too late?
 *
 * why_the_order_path: a late payment takes its units as any order does, under the same locks,
 * fences, limits and settings, so that it can break no promise that an order keeps. Only its row is
 * there already: the transaction moves it from expired to paid, and writes the payment. */
#include <stdlib.h>
#include <string.h>

#include "stock/returns/trial.h"
#include "stock/stock_core.h"

/* ---- the result of one try ---- */

static enum stock_state_result result_by_payment(const struct stock_status_change *change)
{
    const struct ledger_record *record = &change->record;
    switch (change->payment.state) {
    case LEDGER_PAYMENT_TAKEN:
        return STOCK_STATE_OK;
    case LEDGER_PAYMENT_DUE:
    case LEDGER_PAYMENT_REFUNDED:
        return STOCK_STATE_REFUSED;
    default: /* somebody is changing the order or its sale */
        return record->status[0] == '\0' ? STOCK_STATE_NO_ORDER : STOCK_STATE_BUSY;
    }
}

static enum stock_state_result result_by_status(const struct ledger_record *record)
{
    if (record->status[0] == '\0')
        return STOCK_STATE_NO_ORDER;
    if (strcmp(record->status, ledger_status_name(LEDGER_PAID)) == 0)
        return STOCK_STATE_OK;
    /* A reserved order that is not payable is overdue, or its round is over, though nobody has
     * expired it yet. */
    return record->payable ? STOCK_STATE_BUSY : STOCK_STATE_REFUSED;
}

/* ---- paying in the ledger ---- */

static void read_paid(struct stock_status_change *change)
{
    change->result = change->record.damaged                   ? STOCK_STATE_DAMAGED
                     : ledger_payment_named(&change->payment) ? result_by_payment(change)
                                                              : result_by_status(&change->record);
    change->moved = change->payment.moved;
    change->told |= change->payment.told;
    /* Without its sale, or in a later round, an order has no units to take. */
    change->payment.give_up |= change->record.round_over;
}

static void pay_in_ledger(struct stock *stock, struct trial *trial)
{
    struct ledger_record *records[STOCK_CHANGES_MAX];
    struct ledger_payment *payments[STOCK_CHANGES_MAX];
    enum ledger_result paid = ledger_pay(stock->ledger, trial_records(trial, records),
                                         trial_payments(trial, payments), trial->open_count);
    if (paid == LEDGER_DAMAGED) { /* the next try pays the others */
        for (size_t i = 0; i < trial->open_count; i++)
            trial->open[i]->result = records[i]->damaged ? STOCK_STATE_DAMAGED : STOCK_STATE_FAILED;
        return;
    }
    if (paid != LEDGER_OK) {
        trial_set_all(trial, paid == LEDGER_UNKNOWN ? STOCK_STATE_IN_DOUBT : STOCK_STATE_FAILED);
        for (size_t i = 0; i < trial->open_count; i++)
            payments[i]->retake = false;
        return;
    }
    for (size_t i = 0; i < trial->open_count; i++)
        read_paid(trial->open[i]);
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

static void read_retaken(struct stock_status_change *change, struct stock_order *order)
{
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
    default: /* while its users are counted, a sale only waits */
        change->payment.give_up =
            stock_outcome_refused(order->outcome) && order->outcome != STOCK_COUNTING;
        break;
    }
    stock_order_clear(order);
}

/* Sells in pieces of what the strategy carries at a time. */
static void retake(struct stock *stock, struct stock_status_change *const *changes, size_t count)
{
    size_t most = stock_batch_max(stock);
    struct stock_order *orders = malloc(most * sizeof *orders),
                       **list = malloc(most * sizeof *list);
    if (!orders || !list)
        abort();
    for (size_t at = 0, piece; at < count; at += piece) {
        piece = count - at < most ? count - at : most;
        for (size_t i = 0; i < piece; i++) {
            fill_order(&orders[i], changes[at + i]);
            list[i] = &orders[i];
        }
        stock_sell(stock, list, piece);
        for (size_t i = 0; i < piece; i++)
            read_retaken(changes[at + i], &orders[i]);
    }
    stock_flush(stock); /* perhaps no next batch follows */
    free(orders);
    free(list);
}

/* Lists those of the open changes for which `wanted` holds. */
static size_t list_if(const struct trial *trial, bool (*wanted)(const struct stock_status_change *),
                      struct stock_status_change **out)
{
    size_t count = 0;
    for (size_t i = 0; i < trial->open_count; i++)
        if (wanted(trial->open[i]))
            out[count++] = trial->open[i];
    return count;
}

static bool is_undecided(const struct stock_status_change *change)
{
    return change->result == STOCK_STATE_BUSY;
}

static bool is_to_be_retaken(const struct stock_status_change *change)
{
    return is_undecided(change) && change->payment.retake;
}

/* True when one of the changes is for the same order: it has its units again once. */
static bool has_order(struct stock_status_change *const *changes, size_t count, uint64_t order_id)
{
    for (size_t i = 0; i < count; i++)
        if (changes[i]->record.order_id == order_id)
            return true;
    return false;
}

/* Takes units for late payments that are not known yet. What was read without a lock decides
 * nothing: the commit takes only an order that is expired then, and no known payment. */
static void retake_expired(struct stock *stock, struct trial *trial)
{
    struct ledger_record *records[STOCK_CHANGES_MAX];
    struct ledger_payment *payments[STOCK_CHANGES_MAX];
    struct stock_status_change *expired[STOCK_CHANGES_MAX];
    size_t count = 0;
    bool found =
        ledger_payments_find(stock->ledger, trial_records(trial, records),
                             trial_payments(trial, payments), trial->open_count) == LEDGER_OK;
    trial_set_all(trial, found ? STOCK_STATE_BUSY : STOCK_STATE_FAILED);
    for (size_t i = 0; i < trial->open_count && found; i++) {
        struct stock_status_change *change = trial->open[i];
        enum ledger_status status = ledger_status_of(change->record.status);
        if (status == LEDGER_EXPIRED && ledger_payment_named(&change->payment) &&
            change->payment.state == LEDGER_PAYMENT_NONE && !change->payment.give_up &&
            !has_order(expired, count, change->record.order_id))
            expired[count++] = change;
    }
    if (count > 0)
        retake(stock, expired, count);
}

/* The ledger decides last, under the orders' locks: also what could not be retaken. */
static void pay_once(struct stock *stock, struct trial *trial)
{
    struct trial part = {.open_count = 0};
    bool retakes = !trial->open[0]->no_retake;
    if (retakes)
        retake_expired(stock, trial);
    else
        trial_set_all(trial, STOCK_STATE_BUSY);
    part.open_count = list_if(trial, is_undecided, part.open);
    if (part.open_count > 0)
        pay_in_ledger(stock, &part);
    if (retakes)
        return;
    part.open_count = list_if(trial, is_to_be_retaken, part.open);
    trial_set_all(&part, STOCK_STATE_RETAKE);
}

void stock_pay(struct stock *stock, struct stock_status_change *changes, size_t count, int wait_ms)
{
    struct trial trial = trial_of(stock, changes, count, wait_ms);
    do
        pay_once(stock, &trial);
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
    do
        extend_once(stock, &trial);
    while (trial_goes_on(stock, &trial));
}
