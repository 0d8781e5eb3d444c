/* Rows of the simulated ledger as the structs that callers get. */
#ifndef SIMULATE_LEDGER_TEXT_H
#define SIMULATE_LEDGER_TEXT_H

#include "sql/payments/payments.h"
#include "test/simulate/ledger/ledger_table.h"

/* Copies a name that must not be longer than a row has room for. */
void text_copy(char out[NAME_MAX_SIZE], const char *text);

void segment_of_version(struct ledger_segment *segment_out, const struct version *version);
void sale_of_version(struct ledger_sale *sale_out, const struct version *version,
                     const struct txn *txn);

/* Fills in the record of its `order_id`; `row` is NULL when there is none. For a payment it says
 * whether the order can be paid. */
void record_of_row(struct ledger_record *record, const struct row *row, const struct txn *txn,
                   bool for_payment);

/* True when an order can be paid, or must expire, by the server's clock. */
bool version_payable(const struct version *version, const struct txn *txn);
bool version_may(const struct version *version, enum ledger_status to, const struct txn *txn);

/* How a payment finds an order, as ledger_status_standing. The transaction locks the sale; if
 * another one has it, it is not seen. */
enum ledger_standing version_standing(const struct version *version, struct txn *txn);

/* When an order's time to pay is over, grace included; 0: never. */
int64_t version_due_ms(const struct version *version);

/* The units of its sale that an order holds, as LEDGER_UNITS_HELD. */
uint32_t version_held(const struct version *version);

/* The present round of a sale; 0 without a sale. */
uint32_t round_of_sale(const char *sku, const struct txn *txn);

/* A sale is being counted, in this round. */
const struct version *count_seen(const char *sku, uint32_t round, const struct txn *txn);

void quota_id_add(struct quota_row *quota, uint64_t order_id);
void quota_id_remove(struct quota_row *quota, uint64_t order_id);

#endif
