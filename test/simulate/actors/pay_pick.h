/* What the callers of pay, cancel, refund, unpay and extend ask for, by chance. */
#ifndef SIMULATE_PAY_PICK_H
#define SIMULATE_PAY_PICK_H

#include "stock/returns/returns.h"
#include "test/simulate/machine/chance.h"

enum { PAY_REF_SIZE = 16 };

enum pay_kind { PAY_PAY, PAY_CANCEL, PAY_REFUND, PAY_UNPAY, PAY_EXTEND, PAY_KINDS };

/* Forgets what was asked for in another schedule. */
void pay_pick_begin(void);

/* Fills in a change of that kind: which order, and its payment in `ref`, "" for none.
 * Often it is what was asked for last, as by a shop that asks again at once. */
void pay_pick(struct chance *chance, enum pay_kind kind, struct stock_status_change *change,
              char ref[PAY_REF_SIZE]);

#endif
