/* Private to stock/returns/: repeats a call until the orders' statuses are known, its time is over,
 * or no server is reachable. */
#ifndef STOCK_RETURNS_TRIAL_H
#define STOCK_RETURNS_TRIAL_H

#include "stock/returns/returns.h"

struct trial {
    struct stock_status_change *open[STOCK_CHANGES_MAX]; /* not decided yet */
    size_t open_count;
    bool extends; /* in: the call extends orders */
    bool decided; /* an order is decided */
    int failures;
    int64_t until_ns;
    int64_t resolve_until_ns; /* once a try is in doubt, which must be resolved */
};

struct trial trial_of(const struct stock *stock, struct stock_status_change *changes, size_t count,
                      int wait_ms);

/* Sets the result of every open change. */
void trial_set_all(struct trial *trial, enum stock_state_result result);

/* Keeps the undecided changes. True when another try is worthwhile; else their results are final.
 * */
bool trial_goes_on(struct stock *stock, struct trial *trial);

/* Lists the records of the undecided changes, for the ledger to fill in. */
struct ledger_record *const *trial_records(struct trial *trial,
                                           struct ledger_record *records[STOCK_CHANGES_MAX]);

/* Lists their payments likewise. */
struct ledger_payment *const *trial_payments(struct trial *trial,
                                             struct ledger_payment *payments[STOCK_CHANGES_MAX]);

#endif
