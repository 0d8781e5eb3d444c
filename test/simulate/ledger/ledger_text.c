/* Rows of the simulated ledger as the structs that callers get. */
#include "test/simulate/ledger/ledger_text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger/ledger.h"
#include "test/simulate/ledger/ledger_session.h"

void text_copy(char out[NAME_MAX_SIZE], const char *text)
{
    assert(strlen(text) < NAME_MAX_SIZE);
    strcpy(out, text);
}

void segment_of_version(struct ledger_segment *segment_out, const struct version *version)
{
    const struct segment_row *row = &version->segment;
    *segment_out =
        (struct ledger_segment){row->segment, row->round, row->capacity, row->sold, row->fence};
}

const struct version *count_seen(const char *sku, uint32_t round, const struct txn *txn)
{
    const struct row *row = row_of_count(sku);
    const struct version *seen = row ? row_seen(row, txn) : NULL;
    return seen && seen->there && seen->count.round == round ? seen : NULL;
}

static uint32_t sold_of(const char *sku, const struct txn *txn)
{
    uint32_t sold = 0;
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_SEGMENT, i)); i++) {
        const struct version *seen = row_seen(row, txn);
        if (seen->there && strcmp(seen->sku, sku) == 0)
            sold += seen->segment.sold;
    }
    return sold;
}

void sale_of_version(struct ledger_sale *sale_out, const struct version *version,
                     const struct txn *txn)
{
    const struct sale_row *row = &version->sale;
    *sale_out = (struct ledger_sale){.round = row->round,
                                     .total = row->total,
                                     .segments = row->segments,
                                     .sold = sold_of(version->sku, txn),
                                     .settings = row->settings};
    sale_out->settings.counting = count_seen(version->sku, row->round, txn) != NULL;
    strcpy(sale_out->sku, version->sku);
}

uint32_t round_of_sale(const char *sku, const struct txn *txn)
{
    const struct row *row = row_of_sale(sku);
    const struct version *seen = row ? row_seen(row, txn) : NULL;
    return seen && seen->there ? seen->sale.round : 0;
}

int64_t version_due_ms(const struct version *version)
{
    const struct order_row *order = &version->order;
    return order->expires_ms == 0 ? 0 : order->expires_ms + (int64_t)order->grace_s * 1000;
}

static bool is_overdue(const struct version *version)
{
    return version->order.expires_ms != 0 && version_due_ms(version) <= ledger_server_ms();
}

uint32_t version_held(const struct version *version)
{
    const struct order_row *order = &version->order;
    bool holds = order->status == LEDGER_RESERVED || order->status == LEDGER_PAID;
    return (holds ? order->qty : 0) + order->unreturned;
}

enum ledger_standing version_standing(const struct version *version, struct txn *txn)
{
    struct row *row = row_of_sale(version->sku);
    if (round_of_sale(version->sku, txn) != version->order.round)
        return LEDGER_OVER;
    if (!txn_take(txn, row))
        return LEDGER_UNSEEN;
    if (!is_overdue(version))
        return LEDGER_IN_ROUND;
    return row_seen(row, txn)->sale.settings.refund_late ? LEDGER_OVER : LEDGER_OVERDUE;
}

bool version_payable(const struct version *version, const struct txn *txn)
{
    return version_may(version, LEDGER_PAID, txn);
}

bool version_may(const struct version *version, enum ledger_status to, const struct txn *txn)
{
    const struct order_row *order = &version->order;
    uint32_t round = round_of_sale(version->sku, txn);
    bool late = is_overdue(version);
    bool allowed = to == LEDGER_PAID       ? !late && order->round == round
                   : to == LEDGER_EXPIRED  ? late || order->round < round
                   : to == LEDGER_RESERVED ? order->round == round
                                           : true;
    bool of_paid = to == LEDGER_REFUNDED || to == LEDGER_RESERVED;
    return allowed && (order->status == (of_paid ? LEDGER_PAID : LEDGER_RESERVED) ||
                       (to == LEDGER_CANCELLED && order->status == LEDGER_EXPIRED));
}

void record_of_row(struct ledger_record *record, const struct row *row, const struct txn *txn,
                   bool for_payment)
{
    const struct version *seen = row ? row_seen(row, txn) : NULL;
    *record = (struct ledger_record){.order_id = record->order_id};
    if (!seen || !seen->there)
        return;
    const struct order_row *order = &seen->order;
    strcpy(record->sku, seen->sku);
    strcpy(record->user_id, seen->user_id);
    strcpy(record->key, seen->key);
    snprintf(record->status, sizeof record->status, "%s", ledger_status_name(order->status));
    record->payable = for_payment && version_payable(seen, txn);
    uint32_t round = round_of_sale(seen->sku, txn);
    record->round_over =
        for_payment && order->status != LEDGER_PAID && (round == 0 || order->round < round);
    ledger_time_format(order->created_ms, record->created_at);
    if (order->expires_ms != 0)
        ledger_time_format(order->expires_ms, record->expires_at);
    record->round = order->round;
    record->qty = order->qty;
    record->ordered = order->ordered;
    record->segment = order->segment;
}

void quota_id_add(struct quota_row *quota, uint64_t order_id)
{
    size_t kept =
        quota->id_count < LEDGER_QUOTA_ORDERS_MAX ? quota->id_count : LEDGER_QUOTA_ORDERS_MAX - 1;
    memmove(&quota->ids[1], &quota->ids[0], kept * sizeof quota->ids[0]);
    quota->ids[0] = order_id;
    quota->id_count = kept + 1;
}

void quota_id_remove(struct quota_row *quota, uint64_t order_id)
{
    size_t kept = 0;
    for (size_t i = 0; i < quota->id_count; i++)
        if (quota->ids[i] != order_id)
            quota->ids[kept++] = quota->ids[i];
    quota->id_count = kept;
}
